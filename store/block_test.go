package store

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBlockHoldsAHeader(t *testing.T) {
	h := http.Header{
		"Content-Type": {"text/html"}, "Vary": {"Accept", "Cookie"}, "X-Empty": {""}, "Date": nil, "": {"odd"},
		"X-Long": {strings.Repeat("v", 200)}, "Trailer:Sum": {"1"}, "Content-Length": {"5"},
	}
	b := EncodeBlock(h, "Content-Length")
	want := http.Header{
		"Content-Type": {"text/html"}, "Vary": {"Accept", "Cookie"}, "X-Empty": {""}, "Date": {}, "": {"odd"},
		"X-Long": {strings.Repeat("v", 200)},
	}
	assert.Equal(t, want, b.Header())
	assert.Equal(t, 6, b.Values())

	for name, want := range map[string]string{"Content-Type": "text/html", "Vary": "Accept", "X-Empty": "", "": "odd"} {
		got, ok := b.Get(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, got)
	}
	for _, name := range []string{"Date", "Aaa", "Content-Length", "X-Later", "vary"} {
		_, ok := b.Get(name)
		assert.False(t, ok, name)
	}
}

// A field without values tells net/http not to fill it in.
func TestBlockKeepsFieldsWithoutValue(t *testing.T) {
	b := EncodeBlock(http.Header{"Content-Type": nil})
	h := http.Header{"Content-Type": {"from outside"}}
	b.CopyTo(h, 0)
	v, has := h["Content-Type"]
	assert.True(t, has)
	assert.Empty(t, v)
}

func TestBlockOfNothing(t *testing.T) {
	for _, h := range []http.Header{nil, {}, {"Age": {"1"}}} {
		b := EncodeBlock(h, "Age")
		assert.Empty(t, b)
		assert.Zero(t, b.Values())
		assert.Len(t, b.CopyTo(http.Header{}, 3), 3)
		_, ok := b.Get("Age")
		assert.False(t, ok)
	}
}

// Whoever got a copy may change it, append to it and use the room beside it,
// without a field running into the next.
func TestBlockCopiesAreApart(t *testing.T) {
	b := EncodeBlock(http.Header{"A": {"1"}, "B": {"2"}})
	first, second := http.Header{}, http.Header{}
	room := b.CopyTo(first, 2)
	b.CopyTo(second, 0)
	room[0], room[1] = "x", "y"
	first["A"] = append(first["A"], "more")
	first["B"][0] = "changed"
	assert.Equal(t, http.Header{"A": {"1", "more"}, "B": {"changed"}}, first)
	assert.Equal(t, http.Header{"A": {"1"}, "B": {"2"}}, second)
}

func TestParseBlockRefuses(t *testing.T) {
	good := string(EncodeBlock(http.Header{"A": {"1", "2"}, "B": nil}))
	_, ok := ParseBlock(good)
	require.True(t, ok)
	for name, s := range map[string]string{
		"no field":                "\x00",
		"a count and no field":    "\x01",
		"cut off":                 good[:len(good)-1],
		"something behind":        good + "\x00",
		"count too low":           "\x01\x01A\x02\x011\x012",
		"count too high":          "\x03\x01A\x02\x011\x012",
		"names out of order":      "\x02\x01B\x01\x011\x01A\x01\x011",
		"a name twice":            "\x02\x01A\x01\x011\x01A\x01\x011",
		"a trailer field":         "\x01\x09Trailer:A\x01\x011",
		"a longer number":         "\x81\x00\x01A\x01\x011",
		"zero in two bytes":       "\x80\x00\x01A\x00",
		"a number without an end": "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"2^63":                    "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x01A\x00",
		"2^70":                    "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x01A\x00",
		"a text beyond the end":   "\x01\x7fA\x01\x011",
		"values beyond the end":   "\x7f\x01A\x7f\x011",
	} {
		_, ok := ParseBlock(s)
		assert.False(t, ok, name)
	}
}

// What ParseBlock takes reads without a panic, and is what EncodeBlock would
// have made of it.
func FuzzParseBlock(f *testing.F) {
	f.Add("")
	f.Add("\x00")
	f.Add(string(EncodeBlock(http.Header{"A": {"1", ""}, "B": nil, "Content-Type": {strings.Repeat("x", 300)}})))
	f.Add("\x02\x01A\x02\x011\x012")
	f.Add("\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01A")
	f.Fuzz(func(t *testing.T, s string) {
		b, ok := ParseBlock(s)
		if !ok {
			return
		}
		h := b.Header()
		if again := EncodeBlock(h); again != b {
			t.Fatalf("%q was taken but encodes as %q", s, again)
		}
		values := 0
		for name, v := range h {
			values += len(v)
			got, has := b.Get(name)
			if has != (len(v) > 0) || has && got != v[0] {
				t.Fatalf("Get(%q) = %q, %v; the header has %q", name, got, has, v)
			}
		}
		if b.Values() != values || len(b.CopyTo(http.Header{}, 2)) != 2 {
			t.Fatalf("%q has %d values, says %d", s, values, b.Values())
		}
	})
}

// Any header comes back as it went in.
func FuzzBlockRoundTrip(f *testing.F) {
	f.Add("Vary\nAccept\nVary\nCookie\nDate")
	f.Add("A\n\nA\n" + strings.Repeat("v", 130))
	f.Fuzz(func(t *testing.T, s string) {
		lines := strings.Split(s, "\n")
		h := http.Header{}
		for i := 0; i < len(lines); i += 2 {
			if strings.HasPrefix(lines[i], http.TrailerPrefix) {
				continue
			}
			if i+1 == len(lines) {
				h[lines[i]] = append(h[lines[i]], []string{}...)
				break
			}
			h[lines[i]] = append(h[lines[i]], lines[i+1])
		}
		b, ok := ParseBlock(string(EncodeBlock(h)))
		if !ok || !maps.EqualFunc(b.Header(), h, slices.Equal[[]string]) {
			t.Fatalf("%q came back as %q", h, b.Header())
		}
	})
}
