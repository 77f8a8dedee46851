package cachekey_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
)

// Spellings of Accept-Language that mean the same (RFC 9110 §12.5.4) are one
// variant, and those that don't are not.
func TestEquivalentLanguages(t *testing.T) {
	value := cachekey.EquivalentLanguages().Value
	for _, c := range []struct {
		want  string
		lines []string
	}{
		{"de,en", []string{"en, de"}},
		{"de,en", []string{"de, en"}},
		{"de,en", []string{" eN ,   De"}},
		{"de,en", []string{"de", "en", "de"}},
		{"de,fr;q=0.5", []string{"fr;q=0.5, de;q=1.0"}},
		{"fr,de;q=0.5", []string{"de;q=0.5, fr"}},
		{"en,de;q=0.123,fr;q=0", []string{"en, fr;q=0, de;q=0.123"}},
		{"", []string{""}},
		{"", nil},
	} {
		assert.Equal(t, c.want, value(c.lines), "%q", c.lines)
	}
}

func TestPreferredLanguage(t *testing.T) {
	for _, c := range []struct {
		line, want string
		ok         bool
	}{
		{"de", "de", true},
		{"fr;q=0.5, DE;q=1.0", "de", true},
		{"de, de;q=1", "de", true},
		{"en, de", "de", false},
		{"*", "", false},
		{"de;q=0", "", false},
		{"", "", false},
	} {
		got, ok := cachekey.PreferredLanguage([]string{c.line})
		assert.Equal(t, c.ok, ok, c.line)
		if ok {
			assert.Equal(t, c.want, got, c.line)
		}
	}
}

// White space around commas and the division into lines don't select another
// variant if the spec says so, but quoted commas, absence and emptiness still do.
func TestSelectingFieldsComparedAsLists(t *testing.T) {
	spec, err := cachekey.New(cachekey.Options{CompareAsLists: true})
	require.NoError(t, err)
	text := func(lines ...string) string {
		return string(spec.AppendSelecting(nil, []string{"foo"}, http.Header{"Foo": lines}))
	}
	same := text("1,2")
	assert.Equal(t, same, text(" 1, 2 "))
	assert.Equal(t, same, text("1", "2"))
	assert.NotEqual(t, same, text("2,1"))
	assert.NotEqual(t, same, text(`"1,2"`))
	assert.NotEqual(t, text(`"1, 2"`), text(`"1,2"`))
	absent := string(spec.AppendSelecting(nil, []string{"foo"}, http.Header{}))
	assert.NotEqual(t, absent, text(""))
	plain := cachekey.Default()
	assert.NotEqual(t,
		string(plain.AppendSelecting(nil, []string{"foo"}, http.Header{"Foo": {"1,2"}})),
		string(plain.AppendSelecting(nil, []string{"foo"}, http.Header{"Foo": {"1, 2"}})))
}
