package testnet

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRawServer(t *testing.T) {
	tests := []struct {
		what, answer, body, err string
	}{
		{"well formed", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", ""},
		{"lengths that contradict", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "", "Content-Length"},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", "", "Content-Length"},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "ok", "unexpected EOF"},
		{"garbage", "\x00\x01\x02\r\n\r\n", "", "malformed"},
		{"silence", "", "", "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			CheckLeaks(t)
			o := RawServer(t, func(conn net.Conn, req *http.Request) {
				assert.Equal(t, "/page", req.URL.Path)
				Drip(conn, tt.answer)
			})
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			r, err := Do(c, "GET", o.URL+"/page")
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
			if r != nil {
				assert.Equal(t, tt.body, r.Body)
			} else {
				assert.Empty(t, tt.body)
			}
			assert.Equal(t, 1, o.Count())
		})
	}
}

// In a bubble, and with a second request on the same connection.
func TestRawServeKeepsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewPipeListener()
		o := RawServe(t, l, func(conn net.Conn, req *http.Request) {
			const ok = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
			Drip(conn, ok+"1")
			if _, err := http.ReadRequest(bufio.NewReader(conn)); assert.NoError(t, err) {
				Drip(conn, ok+"2")
			}
		})
		conn, err := l.Dial(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		const req = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		go io.Copy(conn, strings.NewReader(req+req)) // both at once: the second is read ahead
		all, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Equal(t, 2, strings.Count(string(all), "200 OK"))
		assert.True(t, strings.HasSuffix(string(all), "2"))
		assert.Equal(t, 1, o.Count())
	})
}

// The end of the test must not hang on an origin that waits for more.
func TestRawServerEndsWithItsTest(t *testing.T) {
	CheckLeaks(t)
	t.Run("inner", func(t *testing.T) {
		got := make(chan struct{})
		o := RawServer(t, func(conn net.Conn, _ *http.Request) {
			close(got)
			io.Copy(io.Discard, conn)
		})
		conn, err := net.Dial("tcp", o.Addr)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-got
	})
}
