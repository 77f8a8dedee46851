package lb

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// said is all that a server answers to a text.
func said(t *testing.T, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second)) // a tunnel has no end
	io.WriteString(c, text)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(answer)
}

// HTTP/1.0 has no 1xx responses: such a client would take one for the answer.
func TestHTTP10GetsNoInterimResponses(t *testing.T) {
	front := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, status := range []int{103, 102, 103} {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(status)
		}
		w.Header().Del("Link")
		w.Header()["Date"], w.Header()["Content-Type"] = []string{"none"}, nil
		io.WriteString(w, "ok")
	}))
	assert.Equal(t, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nDate: none\r\n\r\nok",
		said(t, front.Listener.Addr().String(), "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"))
}

// Nor has it upgrades.
func TestHTTP10IsNotUpgraded(t *testing.T) {
	front := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echoUpgrade(w, r)
			return
		}
		w.Header()["Date"], w.Header()["Content-Type"] = []string{"none"}, nil
		io.WriteString(w, "ok")
	}))
	assert.Equal(t, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nDate: none\r\n\r\nok",
		said(t, front.Listener.Addr().String(), "GET / HTTP/1.0\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
}
