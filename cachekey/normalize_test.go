package cachekey

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAcceptEncoding(t *testing.T) {
	cases := []struct {
		codings string
		lines   []string
		want    string
	}{
		{"", nil, "identity"},
		{"", []string{""}, "identity"},
		{"", []string{"gzip, deflate, br"}, "br"},
		{"", []string{"gzip, deflate, br, zstd"}, "br"},
		{"", []string{"zstd, gzip"}, "gzip"},
		{"", []string{"zstd"}, "zstd"},
		{"", []string{"deflate"}, "identity"},
		{"zstd br gzip", []string{"gzip, deflate, br, zstd"}, "zstd"},
		{"gzip", []string{"br, gzip"}, "gzip"},
		{"gzip", []string{"gzip;q=0.1, br"}, "gzip"},
		{"gzip", []string{"br", "gzip"}, "gzip"},
		{"gzip", []string{"GZIP"}, "gzip"},
		{"GZip", []string{"gzip"}, "gzip"},
		{"gzip", []string{"x-gzip"}, "gzip"},
		// Substring search and a missed zero handed gzip to clients that refuse it.
		{"gzip", []string{"x-gzip2"}, "identity"},
		{"gzip", []string{"gzip;q=0, identity"}, "identity"},
		{"gzip", []string{"gzip ; q=0.000"}, "identity"},
		{"gzip", []string{"gzip;Q=0"}, "identity"},
		{"gzip", []string{"gzip;a=b;q=0"}, "identity"},
		{"gzip", []string{"gzip, gzip;q=0"}, "identity"},
		{"gzip", []string{"gzip;q=0", "gzip"}, "identity"},
		{"gzip", []string{"gzip;q=0, *"}, "identity"},
		{"gzip", []string{"*;q=0, gzip"}, "gzip"},
		{"gzip", []string{"gzip;q=x"}, "identity"},
		{"gzip", []string{"gzip;q="}, "identity"},
		{"gzip", []string{"gzip;q=2"}, "identity"},
		{"gzip", []string{"gzip;q=-1"}, "identity"},
		{"gzip", []string{"gzip;q=0.0001"}, "identity"},
		{"gzip", []string{"gzip;q=0.x"}, "identity"},
		{"gzip", []string{"gzip;q=1.001"}, "identity"},
		{"gzip", []string{"gzip;q=1.000"}, "gzip"},
		{"gzip", []string{"gzip;q=0.001"}, "gzip"},
		{"gzip", []string{"gzip;level=1"}, "gzip"},
		{"br gzip", []string{"*"}, "br"},
		{"br gzip", []string{"*, br;q=0"}, "gzip"},
		{"gzip", []string{"*;q=0"}, "identity;q=0"},
		{"gzip", []string{"identity;q=0"}, "identity;q=0"},
		{"gzip", []string{"identity;q=0, gzip"}, "gzip"},
		{"gzip", []string{"identity;q=0, *"}, "gzip"},
		{"gzip", []string{"*;q=0, identity"}, "identity"},
		{"gzip identity", []string{"gzip"}, "gzip"},
		{"identity", []string{"gzip"}, "identity"},
		{"gzip", []string{",,;,gzip,"}, "gzip"},
	}
	for _, c := range cases {
		n := AcceptEncoding(strings.Fields(c.codings)...)
		assert.Equal(t, c.want, n.Value(c.lines), "%s: %q", c.codings, c.lines)
		assert.Equal(t, c.want, n.Value([]string{n.sent(c.want)}), "the value sent is normalised already")
	}
}

func TestAcceptLanguage(t *testing.T) {
	cases := []struct{ languages, field, want string }{
		{"en de", "", "en"},
		{"en de", "de", "de"},
		{"en de", "DE", "de"},
		{"en de", "fr", "en"},
		{"en de fr", "fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", "fr"},
		{"fr de", "de-CH, fr;q=0.8", "de"},
		{"en-GB en-US", "en", "en-GB"},
		{"en-US en-GB", "en-GB, en;q=0.9", "en-GB"},
		{"en de", "de;q=0.5, en;q=0.4", "de"},
		{"en de", "de, en", "de"},
		{"en de", "fr, *;q=0.1", "en"},
		{"en de", "en;q=0, *", "de"},
		{"en de", "en;q=0", "en"},
		{"fr de", "de;q=0, de-CH, fr;q=0.1", "fr"},
		{"de en", "de-CH;q=0, de", "de"},
		{"zh-Hant zh", "zh-Hant-TW", "zh-Hant"},
		{"zh zh-Hant", "zh-Hant-TW", "zh"},
		{"en e", "eng", "en"},
		{"pt-BR en", "pt", "pt-BR"},
		{"pt-BR en", "en;q=x, pt;q=0.1", "pt-BR"},
		{"en de", ",,;;,-,d-e", "en"},
	}
	for _, c := range cases {
		n := AcceptLanguage(strings.Fields(c.languages)...)
		assert.Equal(t, c.want, n.Value([]string{c.field}), "%s: %q", c.languages, c.field)
		assert.Equal(t, c.want, n.Value([]string{n.sent(c.want)}), "the value sent is normalised already")
	}
	n := AcceptLanguage("en", "de", "fr")
	assert.Equal(t, "en", n.Value(nil))
	assert.Equal(t, "fr", n.Value([]string{"de;q=0.5", "fr"}), "lines are one list")
	assert.Equal(t, "en", n.Value([]string{strings.Repeat("xx,", 256) + "de"}), "beyond the bound")
}

func TestDeviceClass(t *testing.T) {
	n := DeviceClass()
	for agent, want := range map[string]string{
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1":     Mobile,
		"Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1":              Tablet,
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140 Mobile Safari/537.36":  Mobile,
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140 Safari/537.36":         Tablet,
		"Mozilla/5.0 (Android 14; Mobile; rv:130.0) Gecko/130.0 Firefox/130.0":                                       Mobile,
		"Mozilla/5.0 (Android 14; Tablet; rv:130.0) Gecko/130.0 Firefox/130.0":                                       Tablet,
		"Mozilla/5.0 (Linux; Android 9; BRAVIA 4K) AppleWebKit/537.36 Chrome/100 Safari/537.36":                      Desktop,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140 Safari/537.36":  Desktop,
		"Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Tablet PC 2.0)":                                          Desktop,
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17 Safari": Desktop,
		"curl/8.5.0": Desktop,
		"":           Desktop,
	} {
		assert.Equal(t, want, n.Value([]string{agent}), agent)
		assert.Equal(t, want, n.Value([]string{n.Send(want)}), "the agent sent is of the class")
	}
	assert.Equal(t, Desktop, n.Value(nil))
}

// Each spelling of one wish made a variant of its own.
func TestNormalisedSpellingsAreOneVariant(t *testing.T) {
	s := mustSpec(t, Options{Normalize: map[string]Normalizer{"Accept-Encoding": AcceptEncoding()}})
	names := []string{"accept-encoding"}
	a := selecting(s, map[string][]string{"Accept-Encoding": {"gzip, deflate, br"}}, names...)
	b := selecting(s, map[string][]string{"Accept-Encoding": {"gzip,br;q=0.9, zstd"}}, names...)
	assert.Equal(t, a, b)
	assert.NotEqual(t, selecting(Default(), map[string][]string{"Accept-Encoding": {"a,b"}}, names...),
		selecting(Default(), map[string][]string{"Accept-Encoding": {"b,a"}}, names...), "raw without a normaliser")
}

func TestKeyedHeaderIsNormalised(t *testing.T) {
	s := mustSpec(t, Options{
		Headers:   []string{"accept-language"},
		Normalize: map[string]Normalizer{"Accept-Language": AcceptLanguage("en", "de")},
	})
	assert.Contains(t, textOf(s, "http://a.test/", "Accept-Language: de-AT;q=0.4"), " h:15:accept-language:2:de")
	assert.Contains(t, textOf(s, "http://a.test/"), " h:15:accept-language:2:en")
}

// A visitor who wants Austrian German gets "de" on a site that lists "de-CH" before
// it. The origin is asked for "de", which must not turn into "de-CH" there.
func TestWhatIsSentForALanguageMeansTheSame(t *testing.T) {
	value := AcceptLanguage("en", "de-CH", "de").Value
	assert.Equal(t, "de", value([]string{"de-AT"}))
	assert.Equal(t, "de", value([]string{"de"}))
	assert.Equal(t, "de-CH", value([]string{"de-CH"}))
	assert.Equal(t, "en", AcceptLanguage("fr", "en", "en-GB").Value([]string{"en"}))
	assert.Equal(t, "en-GB", AcceptLanguage("en-GB", "en-US").Value([]string{"en"}))
}

// Whatever a client sends, the result is one of the few values, and what is sent
// for it means the same.
func FuzzNormalizers(f *testing.F) {
	for _, seed := range []string{"de-", "de-AT", "gzip;q=0, *", "de-CH,de;q=0.9,*;q=0", "*;q=0", ";;=,\x00q=1", "Mobile Android iPad", "a;q=1.0000"} {
		f.Add(seed, "")
	}
	codings, languages := []string{"zstd", "br", "gzip"}, []string{"en", "de-CH", "de", "pt-BR"}
	normalizers := []Normalizer{AcceptEncoding(codings...), AcceptLanguage(languages...), DeviceClass()}
	values := [][]string{append(codings, "identity", noCoding), languages, {Desktop, Mobile, Tablet}}
	f.Fuzz(func(t *testing.T, a, b string) {
		for i, n := range normalizers {
			for _, lines := range [][]string{nil, {a}, {a, b}} {
				value := n.Value(lines)
				if !slices.Contains(values[i], value) {
					t.Fatalf("%q gives %q", lines, value)
				}
				if again := n.Value([]string{n.sent(value)}); again != value {
					t.Fatalf("%q gives %q, and that %q", lines, value, again)
				}
			}
		}
	})
}
