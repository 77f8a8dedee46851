package lb

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whitespace before the colon of an origin's field is removed; where the field would
// have said where the body ends, what came as body may be something else.
func TestSpaceBeforeTheColonOfAnOriginsField(t *testing.T) {
	const end = "Content-Length: 2\r\n\r\nok"
	for _, c := range []struct {
		answer string
		status int
		header http.Header // of the fields below
	}{
		{"Cache-Control: max-age=60\r\nCache-Control : private\r\n" + end, 200, http.Header{"Cache-Control": {"max-age=60", "private"}}},
		{"set-cookie  : a=b\r\nSet-Cookie: c=d\r\n" + end, 200, http.Header{"Set-Cookie": {"c=d", "a=b"}}},
		{"Connection : X-Secret\r\nX-Secret: s\r\nKeep-Alive : timeout=5\r\n" + end, 200, http.Header{}},
		{"Transfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 502, http.Header{"Cache-Control": {"no-store"}}},
		{"Content-Length : 2\r\n\r\nok", 502, http.Header{"Cache-Control": {"no-store"}}},
		{"transfer-encoding : chunked\r\n" + end, 502, http.Header{"Cache-Control": {"no-store"}}},
	} {
		addr := speaking(t, "HTTP/1.1 200 OK\r\n"+c.answer)
		w := httptest.NewRecorder()
		b := newBalancer(t, Options{Pools: []Pool{plainPool("p", addr)}})
		newProxy(t, b).ServeHTTP(w, httptest.NewRequest("GET", "http://a.test/", nil))
		got := http.Header{}
		for _, name := range []string{"Cache-Control", "Set-Cookie", "X-Secret", "Keep-Alive", "Keep-Alive ", "Cache-Control ", "set-cookie  "} {
			if values, ok := w.Header()[name]; ok {
				got[name] = values
			}
		}
		assert.Equal(t, []any{c.status, c.header}, []any{w.Code, got}, c.answer)
		if c.status == 502 {
			a := ask(t, b, "GET", "http://a.test/", "")
			assert.Equal(t, FailureProtocol, FailureOf(a.err), c.answer)
		}
	}
}
