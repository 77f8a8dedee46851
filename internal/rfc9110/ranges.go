package rfc9110

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// MaxRanges is how many ranges a request may ask for. More are taken for an
// attempt to make work, and the whole response is the answer (§17.15).
const MaxRanges = 32

// Spec is one range as asked for: First to Last, inclusive; Last is
// math.MaxInt64 if it is open. A suffix has First -1 and its length in Last.
type Spec struct{ First, Last int64 }

// Suffix reports whether the range is the last bytes of the content.
func (s Spec) Suffix() bool { return s.First < 0 }

// Open reports whether the range goes to the end of the content.
func (s Spec) Open() bool { return s.First >= 0 && s.Last == math.MaxInt64 }

// Ranges is what a Range field asks for, never empty.
type Ranges []Spec

// ParseRange reads a Range field (RFC 9110 §14.2). It reports false if the field
// is to be ignored: absent, more than one line, a unit other than bytes, anything
// malformed such as 5-2, or more than [MaxRanges]. Numbers saturate.
func ParseRange(lines []string) (Ranges, bool) {
	if len(lines) != 1 {
		return nil, false
	}
	unit, set, ok := strings.Cut(lines[0], "=")
	if !ok || !field.EqualFold(field.TrimOWS(unit), "bytes") || len(unit) != len("bytes") {
		return nil, false
	}
	var ranges Ranges
	for set != "" {
		var m string
		m, set = field.Cut(set)
		if m == "" {
			continue
		}
		s, ok := parseSpec(m)
		if !ok || len(ranges) == MaxRanges {
			return nil, false
		}
		ranges = append(ranges, s)
	}
	return ranges, len(ranges) > 0
}

func parseSpec(s string) (Spec, bool) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return Spec{}, false
	}
	if first == "" {
		n, ok := position(last)
		return Spec{-1, n}, ok
	}
	a, ok := position(first)
	if !ok {
		return Spec{}, false
	}
	if last == "" {
		return Spec{a, math.MaxInt64}, true
	}
	b, ok := position(last)
	return Spec{a, b}, ok && a <= b
}

// position reads decimal digits and nothing else, saturating one below
// math.MaxInt64, which means open.
func position(s string) (int64, bool) {
	const limit = math.MaxInt64 - 1
	var n int64
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n > (limit-9)/10 {
			n = limit
			continue
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, s != ""
}

// Range is a satisfiable range of content whose size is known.
type Range struct{ Start, Length int64 }

// ContentRange writes the Content-Range value of a 206 with this range.
func (r Range) ContentRange(size int64) string {
	return "bytes " + strconv.FormatInt(r.Start, 10) + "-" + strconv.FormatInt(r.Start+r.Length-1, 10) + "/" + strconv.FormatInt(size, 10)
}

// UnsatisfiedRange writes the Content-Range value of a 416.
func UnsatisfiedRange(size int64) string { return "bytes */" + strconv.FormatInt(size, 10) }

// RangeOutcome is what a Range comes to for content of a known size.
type RangeOutcome uint8

const (
	RangeIgnored       RangeOutcome = iota // answer with the whole
	RangePartial                           // 206 with the ranges
	RangeUnsatisfiable                     // 416
)

// String returns a short name.
func (o RangeOutcome) String() string {
	switch o {
	case RangeIgnored:
		return "ignored"
	case RangePartial:
		return "partial"
	case RangeUnsatisfiable:
		return "unsatisfiable"
	}
	return "unknown"
}

// Resolve returns the ranges of content of the given size that are satisfiable,
// in the order asked for. If several together are longer than the content, they
// overlap for no good, and the whole is the answer.
func (rs Ranges) Resolve(size int64) ([]Range, RangeOutcome) {
	var out []Range
	var sum int64
	for _, s := range rs {
		r, ok := s.resolve(size)
		if !ok {
			continue
		}
		if r.Length == 0 {
			return nil, RangeIgnored // the end of nothing: an empty 200
		}
		if len(out) > 0 && r.Length > size-sum {
			return nil, RangeIgnored
		}
		sum += r.Length
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, RangeUnsatisfiable
	}
	return out, RangePartial
}

func (s Spec) resolve(size int64) (Range, bool) {
	if s.Suffix() {
		n := min(s.Last, size)
		return Range{size - n, n}, s.Last > 0
	}
	if s.First >= size {
		return Range{}, false
	}
	return Range{s.First, min(s.Last, size-1) - s.First + 1}, true
}

// ParseUnsatisfiedRange reads the Content-Range value of a 416: the length that the
// content has.
func ParseUnsatisfiedRange(value string) (size int64, ok bool) {
	unit, rest, _ := strings.Cut(value, " ")
	total, ok := strings.CutPrefix(rest, "*/")
	if !ok || !field.EqualFold(unit, "bytes") {
		return 0, false
	}
	return exact(total)
}

// ParseContentRange reads the Content-Range of a 206 in bytes (RFC 9110 §14.4).
// size is -1 if it isn't known ("*").
func ParseContentRange(value string) (r Range, size int64, ok bool) {
	unit, rest, ok := strings.Cut(value, " ")
	if !ok || !field.EqualFold(unit, "bytes") {
		return Range{}, 0, false
	}
	span, total, ok := strings.Cut(rest, "/")
	if !ok {
		return Range{}, 0, false
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return Range{}, 0, false
	}
	a, okA := exact(first)
	b, okB := exact(last)
	size = -1
	if total != "*" {
		if size, ok = exact(total); !ok || size <= b {
			return Range{}, 0, false
		}
	}
	if !okA || !okB || a > b {
		return Range{}, 0, false
	}
	return Range{a, b - a + 1}, size, true
}

// exact is position without saturation.
func exact(s string) (int64, bool) {
	n, ok := position(s)
	return n, ok && n < math.MaxInt64-1
}
