package lb

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// speaking is an origin that answers each request with the same bytes.
func speaking(t testing.TB, answer string) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			io.WriteString(c, answer)
		}
	})
}

const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// upgradeRequest asks for a protocol; "" for none.
func upgradeRequest(protocol string) *http.Request {
	r := httptest.NewRequest("POST", "http://shop.test/", nil)
	if protocol != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", protocol)
	}
	return r
}

// A head that nobody can do anything with is the origin's fault, and its connection
// isn't used again.
func TestUnacceptableHeads(t *testing.T) {
	for _, c := range []struct{ name, answer, asked string }{
		{"switch that wasn't asked for", switched, ""},
		{"switch to another protocol", switched, "chat"},
		{"switch to nothing", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "websocket"},
		{"switch without Connection", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "websocket"},
		{"status below 100", "HTTP/1.1 099 Odd\r\nContent-Length: 3\r\n\r\nabc", ""},
		{"status zero", "HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := transportTo(t, speaking(t, c.answer), TransportOptions{Scheme: "http"})
			_, err := tr.RoundTrip(upgradeRequest(c.asked))
			assert.Equal(t, TransportError{Failure: FailureProtocol, Wrote: true}, asTransportError(t, err))
			all, _, _, _ := tr.pool.counts()
			assert.Zero(t, all, "connections kept")
		})
	}
}

func TestSwitchToOneOfTheProtocolsAskedFor(t *testing.T) {
	tr := transportTo(t, speaking(t, switched), TransportOptions{Scheme: "http"})
	res, err := tr.RoundTrip(upgradeRequest("chat, WebSocket"))
	require.NoError(t, err)
	assert.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	assert.NoError(t, res.Body.Close())
}

// An answer that reaches no client gives its place back, so that the balancer can
// be closed.
func TestProxyGivesPlacesBack(t *testing.T) {
	for _, c := range []struct{ name, answer, asked string }{
		{"switch that wasn't asked for", switched, ""},
		{"switch to another protocol", switched, "chat"},
		{"switch behind a writer that can't be taken over", switched, "websocket"},
		{"status below 100", "HTTP/1.1 099 Odd\r\nContent-Length: 3\r\n\r\nabc", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBalancer(t, Options{Pools: []Pool{plainPool("p", speaking(t, c.answer))}}) // closes it at the end
			p, err := NewProxy(ProxyOptions{Transport: b, Upgrades: []string{"websocket", "chat"}})
			require.NoError(t, err)
			for range 3 {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, upgradeRequest(c.asked))
				assert.Equal(t, http.StatusBadGateway, w.Code)
			}
			assert.Zero(t, b.Status()[0].Origins[0].InFlight)
		})
	}
}

// panicky is a client's writer that panics where a response begins.
type panicky struct{ http.ResponseWriter }

func (panicky) WriteHeader(int) { panic("writer") }

func TestProxyGivesPlaceBackAfterPanic(t *testing.T) {
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", speaking(t, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))}})
	p := newProxy(t, b)
	assert.PanicsWithValue(t, "writer", func() { p.ServeHTTP(panicky{httptest.NewRecorder()}, upgradeRequest("")) })
	assert.Zero(t, b.Status()[0].Origins[0].InFlight)
}

// flushCounter counts what is flushed.
type flushCounter struct {
	http.ResponseWriter
	n atomic.Int32
}

func (w *flushCounter) Flush() { w.n.Add(1) }

// The head's flush is due in a moment when the body breaks off: the server's writer
// must not be touched after that.
func TestProxyNothingIsFlushedAfterAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) {
			body := io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, errors.New("cut") }))
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, ContentLength: 10}, nil
		}))
		w := &flushCounter{ResponseWriter: httptest.NewRecorder()}
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() { p.ServeHTTP(w, upgradeRequest("")) })
		time.Sleep(10 * flushDelay)
		assert.Zero(t, w.n.Load())
	})
}
