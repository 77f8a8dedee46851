package middleware

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
)

// A team's own normaliser panics while the request to the origin is made. The
// client sees the panic, and the key isn't stuck behind a fetch that never began.
func TestPanicInKeyRulesLeavesTheKeyUsable(t *testing.T) {
	broken := true
	norm := cachekey.Normalizer{
		Value: func([]string) string { return "a" },
		Send: func(string) string {
			if broken {
				panic("rule")
			}
			return "a"
		},
	}
	mw, err := New(Options{Default: Route{Key: cachekey.Options{
		Headers: []string{"X-A"}, Normalize: map[string]cachekey.Normalizer{"X-A": norm}}}})
	require.NoError(t, err)
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("page"))
	}))
	r := httptest.NewRequest("GET", "http://example.com/", nil)
	r.Header.Set("X-A", "b")
	assert.PanicsWithValue(t, "rule", func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	assert.Zero(t, mw.flights.Flights())
	broken = false
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, "page", w.Body.String())
	require.NoError(t, mw.Close(t.Context()))
}
