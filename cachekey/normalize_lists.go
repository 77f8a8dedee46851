package cachekey

import (
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// EquivalentLanguages reduces Accept-Language to one spelling of what it means:
// case, white space, the order of ranges of equal weight, and repetitions don't
// count (RFC 9110 §12.5.4). Unlike [AcceptLanguage] it needs no list of the
// site's languages, and leaves as many variants as visitors have preferences.
func EquivalentLanguages() Normalizer {
	return Normalizer{Value: equivalentLanguages, only: "accept-language"}
}

func equivalentLanguages(lines []string) string {
	ranges := languageRanges(lines)
	slices.SortStableFunc(ranges, func(a, b element) int {
		if a.quality != b.quality {
			return b.quality - a.quality
		}
		return strings.Compare(a.name, b.name)
	})
	ranges = slices.Compact(ranges)
	var out strings.Builder
	for i, r := range ranges {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(r.name)
		if r.quality != 1000 {
			out.WriteString(";q=")
			out.WriteString(qvalue(r.quality))
		}
	}
	return out.String()
}

// languageRanges reads the members of Accept-Language, in lower case.
func languageRanges(lines []string) []element {
	var ranges []element
	for _, line := range lines {
		for at := 0; at <= len(line) && len(ranges) < maxRanges; {
			var e element
			if e, at = elementAt(line, at); e.name != "" {
				e.name = lowerASCII(e.name)
				ranges = append(ranges, e)
			}
		}
	}
	return ranges
}

// qvalue writes a weight given in thousandths (RFC 9110 §12.4.2).
func qvalue(thousandths int) string {
	if thousandths >= 1000 {
		return "1"
	}
	digits := []byte{'0', '.', byte('0' + thousandths/100), byte('0' + thousandths/10%10), byte('0' + thousandths%10)}
	return strings.TrimRight(strings.TrimRight(string(digits), "0"), ".")
}

// PreferredLanguage returns the one language that an Accept-Language field
// weighs higher than all others, in lower case. It reports false if there is no
// such language: none, several of the same weight, or "*".
func PreferredLanguage(lines []string) (string, bool) {
	var best element
	unique := false
	for _, r := range languageRanges(lines) {
		switch {
		case r.quality > best.quality:
			best, unique = r, true
		case r.quality == best.quality && r.name != best.name:
			unique = false
		}
	}
	return best.name, unique && best.quality > 0 && best.name != "*"
}

// appendList writes a field's lines as one list, whose white space between
// members and division into lines don't count (RFC 9111 §4.1).
func (rule *headerRule) appendList(dst []byte, kind Kind, lines []string) []byte {
	members := slices.Collect(field.Members(lines))
	return appendNamed(dst, kind, rule.lower, strings.Join(members, ","))
}
