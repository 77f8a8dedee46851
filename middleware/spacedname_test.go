package middleware

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// fields answers with a header as net/http's client may hand it on.
func fields(h map[string][]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name, values := range h {
			w.Header()[name] = values
		}
		io.WriteString(w, "of "+r.Header.Get("X-User"))
	}
}

// asUser asks as somebody.
func asUser(h http.Handler, method, target, user string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("X-User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// net/http's client takes whitespace before the colon for a part of the field's name.
// The field counts nonetheless, and what no name is forbids sharing, whatever it meant.
func TestSpaceBeforeTheColonHidesNoField(t *testing.T) {
	for name, c := range map[string]struct {
		field, value, reason string
		sent                 string // the name under which it's sent
	}{
		"private":           {"Cache-Control ", "private", "the response says private", "Cache-Control"},
		"no-store":          {"cache-control  ", "no-store", "the response says no-store", "Cache-Control"},
		"cookie":            {"Set-Cookie ", "a=b", "the response sets a cookie", "Set-Cookie"},
		"vary on all":       {"Vary ", "*", "the response varies on everything (Vary: *)", "Vary"},
		"space in the name": {"Cache Control", "private", "a field of the response has no valid name", ""},
		"framing":           {"Transfer-Encoding ", "chunked", "a field of the response has no valid name", ""},
		"length":            {"Content-Length ", "3", "a field of the response has no valid name", ""},
		"other characters":  {"Cache-Control\x00", "private", "a field of the response has no valid name", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := wrapped(t, fields(map[string][]string{"Cache-Control": {"max-age=60"}, c.field: {c.value}}))
				for _, user := range []string{"alice", "bob"} {
					w := asUser(h, "GET", "http://example.com/account.css", user)
					require.Equal(t, "of "+user, w.Body.String())
					require.Contains(t, w.Header().Get("Weir-Cache-Status"), "DYNAMIC")
					if c.sent != "" {
						require.Contains(t, w.Header()[c.sent], c.value)
						require.NotContains(t, w.Header(), c.field)
					}
				}
			})
		})
	}
}

// A Vary with whitespace selects as any does.
func TestSpaceBeforeTheColonOfVary(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := wrapped(t, fields(map[string][]string{"Cache-Control": {"max-age=60"}, "Vary ": {"X-User"}}))
		for range 2 {
			for _, user := range []string{"alice", "bob"} {
				w := asUser(h, "GET", "http://example.com/a", user)
				require.Equal(t, "of "+user, w.Body.String())
				require.Equal(t, []string{"X-User"}, w.Header()["Vary"])
			}
		}
	})
}

// What is passed on gets its fields' names back too, where the server would drop them.
func TestSpaceBeforeTheColonOfPassedFields(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := wrapped(t, fields(map[string][]string{"Cache-Control": {"public"}, "Cache-Control ": {"no-store"}, "Set-Cookie\x20": {"a=b"}}))
		for _, method := range []string{"POST", "HEAD"} {
			w := asUser(h, method, "http://example.com/a", "alice")
			require.Equal(t, []string{"public", "no-store"}, w.Header()["Cache-Control"], method)
			require.Equal(t, []string{"a=b"}, w.Header()["Set-Cookie"], method)
			require.NotContains(t, w.Header(), "Set-Cookie ", method)
		}
	})
}

// A field that names what is no longer valid counts however its name is written.
func TestSpaceBeforeTheColonLosesNoInvalidation(t *testing.T) {
	for _, name := range []string{"Location ", "location", "LOCATION "} {
		bubble(t, func(t *testing.T) {
			calls := 0
			h := wrapped(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.Header()[name] = []string{"/b"}
					w.WriteHeader(http.StatusNoContent)
					return
				}
				calls++
				w.Header().Set("Cache-Control", "max-age=60")
				io.WriteString(w, "b")
			})
			asUser(h, "GET", "http://example.com/b", "")
			asUser(h, "POST", "http://example.com/a", "")
			asUser(h, "GET", "http://example.com/b", "")
			require.Equal(t, 2, calls, name)
		})
	}
}
