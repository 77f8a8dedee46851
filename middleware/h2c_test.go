package middleware

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client offers to upgrade to HTTP/2 in the clear. If the origin took that up,
// the connection would be a tunnel past every rule, so the offer never reaches
// it; an offer of WebSocket does.
func TestOfferOfH2CNeverReachesTheOrigin(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, c := range []struct{ offered, seen string }{
			{"h2c", ""}, {"H2C", ""}, {"websocket", "websocket"}, {"h2c, websocket", "websocket"},
		} {
			var seen []string
			mw, err := New(Options{})
			require.NoError(t, err)
			h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = append(seen, r.Header.Get("Upgrade")+r.Header.Get("HTTP2-Settings"))
			}))
			r := httptest.NewRequest(method, "http://example.com/", nil)
			r.Header.Set("Connection", "Upgrade, HTTP2-Settings")
			r.Header.Set("Upgrade", c.offered)
			if c.offered != "websocket" {
				r.Header.Set("HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			assert.Equal(t, 200, w.Code)
			assert.Equal(t, []string{c.seen}, seen, "%s offering %s", method, c.offered)
			require.NoError(t, mw.Close(t.Context()))
		}
	}
}
