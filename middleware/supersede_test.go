package middleware

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A page that was public turns into one that isn't, or disappears, while a stale
// copy could still be served for ten minutes. The origin's newer word counts: the
// copy is gone after the first refresh. A failing origin, or one client's own
// credentials, don't remove it.
func TestNewerUnstorableResponseSupersedesTheStaleOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		cc     string
		kept   bool
	}{
		{"no-store", 200, "no-store", false},
		{"private", 200, "private", false},
		{"gone", 410, "", false},
		{"not found", 404, "", false},
		{"provoked", 400, "", true},
		{"error", 500, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed := false
				mw, err := New(Options{})
				require.NoError(t, err)
				h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !changed {
						w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=600, stale-if-error=600")
						_, _ = w.Write([]byte("old"))
						return
					}
					if c.cc != "" {
						w.Header().Set("Cache-Control", c.cc)
					}
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte("new"))
				}))
				get := func() string {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest("GET", "http://example.com/", nil))
					synctest.Wait()
					return w.Header().Get("Weir-Cache-Status") + " " + w.Body.String()
				}
				assert.Equal(t, "MISS old", get())
				changed = true
				time.Sleep(2 * time.Second)
				assert.Equal(t, "STALE old", get(), "served at once, refreshed behind")
				want := "DYNAMIC new"
				if c.kept {
					want = "STALE old"
				}
				assert.Equal(t, want, get())
				require.NoError(t, mw.Close(t.Context()))
			})
		})
	}
}
