package cachekey

import (
	"slices"
	"strings"
)

// Bounds of AcceptLanguage: offered languages, and ranges read from a request.
const (
	maxLanguages = 32
	maxRanges    = 256
)

// AcceptLanguage reduces Accept-Language to one of the given languages, spelt as
// given. A language gets the weight of the range that says most about it: equal to
// it, else longest prefix of it ("en" for "en-GB"), else longer than it ("de-CH"
// for "de", as in the lookup of RFC 4647 §3.4), else "*". The highest weight wins,
// then the earlier range, then what it says most about, then the earlier language; a weight of zero excludes.
// Where nothing matches, the first language is the answer. Ranges after the first
// 256 are ignored.
func AcceptLanguage(languages ...string) Normalizer {
	languages = slices.Clone(languages)
	switch {
	case len(languages) == 0:
		return invalidNormalizer(languages, "name the languages of the site, the default one first")
	case len(languages) > maxLanguages:
		return invalidNormalizer(languages, "at most 32 languages")
	}
	for i, language := range languages {
		if !isLanguageTag(language) {
			return invalidNormalizer(language, `not a language tag: use one such as "en" or "pt-BR"`)
		}
		if slices.ContainsFunc(languages[:i], func(l string) bool { return equalFoldASCII(l, language) }) {
			return invalidNormalizer(language, "the language is listed twice")
		}
	}
	return Normalizer{Value: func(lines []string) string { return pickLanguage(languages, lines) }}
}

// isLanguageTag accepts letters, digits and single hyphens between them (RFC 5646
// §2.1 without the registry).
func isLanguageTag(s string) bool {
	for part := range strings.SplitSeq(s, "-") {
		if part == "" || len(part) > 8 {
			return false
		}
		for i := range len(part) {
			if c := lowerByte(part[i]); ('a' > c || c > 'z') && ('0' > c || c > '9') {
				return false
			}
		}
	}
	return true
}

// claim is what the best range so far says about a language.
type claim struct {
	rank    int // how much the range says; 0 is nothing
	quality int
	order   int // place of the range in the field
}

// Ranks of a range for a language. A prefix of the language ranks by its length.
const (
	rankStar   = 1
	rankLonger = 2
	rankPrefix = 3
	rankEqual  = 1 << 20 // above every prefix
)

func rankOf(rng, language string) int {
	switch {
	case rng == "*":
		return rankStar
	case equalFoldASCII(rng, language):
		return rankEqual
	case isPrefixTag(rng, language):
		return rankPrefix + len(rng)
	case isPrefixTag(language, rng):
		return rankLonger
	}
	return 0
}

// isPrefixTag reports whether short is long or its first subtags.
func isPrefixTag(short, long string) bool {
	return short != "" && len(short) <= len(long) && equalFoldASCII(short, long[:len(short)]) &&
		(len(short) == len(long) || long[len(short)] == '-')
}

func pickLanguage(languages, lines []string) string {
	var claims [maxLanguages]claim
	order := 0
	for _, line := range lines {
		for at := 0; at <= len(line) && order < maxRanges; order++ {
			var e element
			e, at = elementAt(line, at)
			for i, language := range languages {
				rank := rankOf(e.name, language)
				// Refusing "de-CH" says nothing about "de".
				if rank == rankLonger && e.quality == 0 {
					continue
				}
				if c := &claims[i]; rank > c.rank || rank == c.rank && rank > 0 && e.quality > c.quality {
					*c = claim{rank, e.quality, order}
				}
			}
		}
	}
	best := -1
	for i := range languages {
		c := claims[i]
		if c.quality > 0 && (best < 0 || c.quality > claims[best].quality ||
			c.quality == claims[best].quality && (c.order < claims[best].order ||
				c.order == claims[best].order && c.rank > claims[best].rank)) {
			best = i
		}
	}
	return languages[max(best, 0)]
}
