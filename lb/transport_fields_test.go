package lb

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// White space around a value is no part of it: HTTP/2 clients send it, and HTTP/2
// origins must refuse it.
func TestValuesReachOriginsTrimmed(t *testing.T) {
	type got struct{ Header, Trailer []string }
	seen := make(chan got, 1)
	origin := func(http2 bool) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			seen <- got{r.Header["X-Odd"], r.Trailer["X-End"]}
		}))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(!http2)
		s.Config.Protocols.SetUnencryptedHTTP2(http2)
		s.Start()
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	for _, protocol := range []Protocol{ProtocolHTTP1, ProtocolHTTP2} {
		p := plainPool("p", origin(protocol == ProtocolHTTP2))
		p.Transport.Protocol = protocol
		front := httptest.NewUnstartedServer(newProxy(t, newBalancer(t, Options{Pools: []Pool{p}})))
		front.EnableHTTP2 = true
		front.StartTLS()
		t.Cleanup(front.Close)
		body, w := io.Pipe()
		req, err := http.NewRequest("POST", front.URL, body)
		require.NoError(t, err)
		req.Header["X-Odd"] = []string{"a", " b\t", "", " "}
		req.Trailer = http.Header{"X-End": nil}
		go func() {
			io.WriteString(w, "data")
			req.Trailer["X-End"] = []string{"\tc ", "d"}
			w.Close()
		}()
		res, err := front.Client().Do(req)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
		assert.Equal(t, got{[]string{"a", "b", "", ""}, []string{"c", "d"}}, <-seen, protocol)
	}
}

func TestTrimmedLeavesTheCallersHeader(t *testing.T) {
	h := http.Header{"A": {"1", " 2"}, "B": {"\t\t"}, "C": nil, "D": {"d e"}}
	before := h.Clone()
	assert.Equal(t, http.Header{"A": {"1", "2"}, "B": {""}, "C": nil, "D": {"d e"}}, trimmed(h))
	assert.Equal(t, before, h)
	assert.Nil(t, trimmed(nil))
}

func TestTrimmedAllocs(t *testing.T) {
	h := http.Header{"A": {"1", "2"}, "B": {""}, "C": nil, "D": {"d e"}}
	testnet.Allocs(t, 0, func() { trimmed(h) })
}

// That an HTTP/2 origin refuses a request as malformed doesn't speak against it. A
// malformed response does.
func TestMalformedRequestsBlameNobody(t *testing.T) {
	for name, c := range map[string]struct {
		answer frame
		want   State
	}{
		"request":             {frame{kind: frameReset, data: []byte{0, 0, 0, http2ProtocolError}}, StateHealthy},
		"request, after head": {frame{kind: frameHeaders, flags: flagEndHeaders, data: []byte{0x88}}, StateHealthy},
		"response":            {frame{kind: frameHeaders, flags: flagEndHeaders, data: []byte{0x88, 0x88}}, StateCircuitOpen},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.add("10.0.0.1:80", saying(200, "")).dialling(served(rawHTTP2(func(conn net.Conn, _ int, head frame) {
					c.answer.stream = head.stream
					writeFrame(conn, c.answer)
					writeFrame(conn, frame{kind: frameReset, stream: head.stream, data: []byte{0, 0, 0, http2ProtocolError}})
				})))
				p := n.pool("p", "10.0.0.1:80")
				p.Breaker = Breaker{Failures: 1}
				p.Transport.Protocol = ProtocolHTTP2
				b := newBalancer(t, Options{Pools: []Pool{p}})
				require.Error(t, ask(t, b, "POST", "http://shop.test/", "").err)
				assert.Equal(t, c.want, b.Status()[0].Origins[0].State)
			})
		})
	}
}
