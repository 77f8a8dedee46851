package middleware

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// fallback answers in English, and says what it was asked for.
func fallback() *testnet.Script {
	return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Vary", "Accept-Language")
		w.Header().Set("Content-Language", "en")
		_, _ = w.Write([]byte(r.Header.Get("Accept-Language")))
	}}
}

// An origin falls back to a language that wasn't asked for, and its page tells what
// was: that page isn't the one of those who ask for that language. Nor is one that was
// asked for in more words while theirs is fresh.
func TestLanguageFallbackIsNotForOthers(t *testing.T) {
	for _, c := range []struct {
		first, second string
		got           string // by who sends en
	}{
		{"", "x-evil", "en"},
		{"", "de, en;q=0.5", "en"},
		{"", "*", "en"},
		{"", "enx", "en"},
		{"", "en, x;q=0.1", "en, x;q=0.1"},
		{"", "en-GB, en;q=0.5", "en-GB, en;q=0.5"},
		{"en", "x-evil", "en"},
		{"en", "en, x;q=0.1", "en"},
	} {
		t.Run(c.first+" then "+c.second, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{SelectLanguage: true}}, fallback())
				if c.first != "" {
					s.get("/", "Accept-Language", c.first)
				}
				s.get("/", "Accept-Language", c.second, "Cache-Control", "no-cache")
				r := s.get("/", "Accept-Language", "en")
				require.Equal(t, c.got, r.body)
			})
		})
	}
}

// An answer that shows a response to be out of date removes it under its language
// too: it doesn't come back in place of an error.
func TestOutdatedLanguageIsRemovedUnderBothNames(t *testing.T) {
	const long = "en-GB, en;q=0.5"
	for name, c := range map[string]struct {
		method string
		answer *testnet.Script
	}{
		"not there": {"GET", testnet.Text(404, "gone", "Cache-Control", "no-store")},
		"private":   {"GET", text("mine", "private")},
		"confirmed": {"GET", testnet.Text(304, "", "Etag", `"v1"`, "Cache-Control", "no-store")},
		"head":      {"HEAD", testnet.Text(200, "", "Etag", `"v2"`)},
	} {
		for _, swap := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t, Options{Default: Route{SelectLanguage: true}},
						public("page", "Vary", "Accept-Language", "Content-Language", "en", "Etag", `"v1"`), c.answer, &testnet.Script{Panic: http.ErrAbortHandler})
					s.get("/", "Accept-Language", long)
					after(61 * time.Second)
					asks := [2]string{long, "en"}
					if swap {
						asks = [2]string{"en", long}
					}
					s.do(c.method, "/", "Accept-Language", asks[0])
					s.asked(2)
					require.Panics(t, func() { s.get("/", "Accept-Language", asks[1]) })
				})
			})
		}
	}
}
