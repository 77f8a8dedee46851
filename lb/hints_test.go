package lb

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// throughBoth runs a test with NewProxy and with a plain ReverseProxy.
func throughBoth(t *testing.T, f func(t *testing.T, proxy func(t *testing.T, b *Balancer) http.Handler)) {
	t.Run("NewProxy", func(t *testing.T) {
		f(t, func(t *testing.T, b *Balancer) http.Handler { return newProxy(t, b) })
	})
	t.Run("ReverseProxy", func(t *testing.T) {
		f(t, func(_ *testing.T, b *Balancer) http.Handler {
			return &httputil.ReverseProxy{
				Transport: b, Rewrite: (*httputil.ProxyRequest).SetXForwarded, ErrorLog: noLog,
			}
		})
	})
}

// stuck is a client that takes no 1xx response before it's let go.
type stuck struct {
	*httptest.ResponseRecorder
	waits, free chan struct{}
}

func newStuck() *stuck {
	return &stuck{httptest.NewRecorder(), make(chan struct{}, 100), make(chan struct{})}
}

func (w *stuck) WriteHeader(status int) {
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
		return
	}
	w.waits <- struct{}{}
	<-w.free
}

// hinting sends an early hint before each answer to /hints.
func hinting(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hints" {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	io.WriteString(w, "ok")
}

// A client takes no early hints: requests of others on the same HTTP/2 connection go on.
func TestClientThatTakesNoHintsStopsNobodyOverHTTP2(t *testing.T) {
	throughBoth(t, func(t *testing.T, proxy func(*testing.T, *Balancer) http.Handler) {
		origin := httptest.NewUnstartedServer(http.HandlerFunc(hinting))
		origin.Config.Protocols = new(http.Protocols)
		origin.Config.Protocols.SetUnencryptedHTTP2(true)
		origin.Start()
		t.Cleanup(origin.Close)
		pool := plainPool("p", origin.Listener.Addr().String())
		pool.Transport.Protocol = ProtocolHTTP2
		p := proxy(t, newBalancer(t, Options{Pools: []Pool{pool}}))
		w := newStuck()
		var wg sync.WaitGroup
		wg.Go(func() { p.ServeHTTP(w, httptest.NewRequest("GET", "http://a.test/hints", nil)) })
		<-w.waits
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		other := httptest.NewRecorder()
		p.ServeHTTP(other, httptest.NewRequest("GET", "http://a.test/", nil).WithContext(ctx))
		close(w.free)
		wg.Wait()
		assert.Equal(t, [2]any{200, "ok"}, [2]any{other.Code, other.Body.String()})
		assert.Equal(t, [2]any{200, "ok"}, [2]any{w.Code, w.Body.String()})
	})
}

// Clients take early hints late, long after their origin has answered: that isn't the
// origin's silence.
func TestClientsThatTakeHintsLateBlameNobody(t *testing.T) {
	throughBoth(t, func(t *testing.T, proxy func(*testing.T, *Balancer) http.Handler) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			n.add("10.0.0.1:80", hinting)
			pool := n.pool("p", "10.0.0.1:80")
			pool.Transport.HeadTimeout = time.Second
			b := newBalancer(t, Options{Pools: []Pool{pool}})
			p := proxy(t, b)
			var wg sync.WaitGroup
			for range 3 * DefaultEjectionFailures {
				wg.Go(func() {
					w := newStuck()
					time.AfterFunc(time.Minute, func() { close(w.free) })
					p.ServeHTTP(w, httptest.NewRequest("GET", "http://a.test/hints", nil))
					assert.Equal(t, [2]any{200, "ok"}, [2]any{w.Code, w.Body.String()})
				})
			}
			wg.Wait()
			allHealthy(t, b)
		})
	})
}

// seen keeps the headers of 1xx responses.
type seen struct {
	*httptest.ResponseRecorder
	heads []http.Header
}

func (w *seen) WriteHeader(status int) {
	if status < 200 {
		h := w.Header().Clone()
		delete(h, "Content-Length")
		w.heads = append(w.heads, h)
		return
	}
	w.ResponseRecorder.WriteHeader(status)
}

// All hints come before the answer, in their order, without the fields of the origin's
// connection.
func TestHintsKeepTheirOrderAndDropConnectionFields(t *testing.T) {
	throughBoth(t, func(t *testing.T, proxy func(*testing.T, *Balancer) http.Handler) {
		const hop = "Connection: keep-alive, X-Secret\r\nKeep-Alive: timeout=5\r\nX-Secret: s\r\nUpgrade: h2c\r\nTrailer: X\r\n"
		addr := speaking(t, "HTTP/1.1 102 Processing\r\nX-N: 1\r\n\r\n"+
			"HTTP/1.1 103 Early Hints\r\n"+hop+"X-N: 2\r\n\r\n"+
			"HTTP/1.1 103 Early Hints\r\nX-N: 3\r\nX-N: 4\r\n\r\n"+
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-N: 5\r\n\r\nok")
		p := proxy(t, newBalancer(t, Options{Pools: []Pool{plainPool("p", addr)}}))
		for range 20 {
			w := &seen{ResponseRecorder: httptest.NewRecorder()}
			p.ServeHTTP(w, httptest.NewRequest("GET", "http://a.test/", nil))
			assert.Equal(t, []http.Header{{"X-N": {"1"}}, {"X-N": {"2"}}, {"X-N": {"3", "4"}}}, w.heads)
			assert.Equal(t, []any{200, "ok", []string{"5"}}, []any{w.Code, w.Body.String(), w.Header()["X-N"]})
		}
	})
}

// What the hook of a request's own context returns ends the request, as in net/http.
func TestHintsHookEndsTheRequest(t *testing.T) {
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", newSite(t, hinting).address())}})
	enough := errors.New("enough")
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { return enough }}
	req := httptest.NewRequest("GET", "http://a.test/hints", nil)
	_, err := b.RoundTrip(req.WithContext(httptrace.WithClientTrace(background, trace)))
	assert.ErrorIs(t, err, enough)
}

// A handler outside aborts on a hint: that is its request's end, not the process's.
func TestPanicOnHintBelongsToTheRequest(t *testing.T) {
	throughBoth(t, func(t *testing.T, proxy func(*testing.T, *Balancer) http.Handler) {
		p := proxy(t, newBalancer(t, Options{Pools: []Pool{plainPool("p", newSite(t, hinting).address())}}))
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() {
			p.ServeHTTP(aborting{httptest.NewRecorder()}, httptest.NewRequest("GET", "http://a.test/hints", nil))
		})
	})
}

type aborting struct{ *httptest.ResponseRecorder }

func (aborting) WriteHeader(int) { panic(http.ErrAbortHandler) }

// An origin sends more hints than its client takes: few are kept.
func TestHintsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hints
		var got []int
		free := make(chan struct{})
		turn := h.begin(func(code int, _ textproto.MIMEHeader) error {
			<-free
			got = append(got, code)
			return nil
		})
		for i := range 100 {
			require.NoError(t, h.add(turn, i, nil))
			synctest.Wait()
		}
		close(free)
		require.NoError(t, h.end(nil))
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, got)
	})
}

// Who gives up a request doesn't wait for the hook; but nothing else is handed to it.
func TestHintsOfARequestThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hints
		var got []int
		free := make(chan struct{})
		turn := h.begin(func(code int, _ textproto.MIMEHeader) error {
			got = append(got, code)
			<-free
			return nil
		})
		h.add(turn, 102, nil)
		h.add(turn, 103, nil)
		synctest.Wait()
		givenUp := make(chan struct{})
		close(givenUp)
		require.NoError(t, h.end(givenUp))
		h.add(turn, 103, nil)
		close(free)
		synctest.Wait()
		assert.Equal(t, []int{102}, got)
	})
}

// The server sends 100 (Continue) as the body is first read, and mustn't be writing a
// hint then.
func TestHintsWaitForTheBodysFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hints
		var mu sync.Mutex
		var log []string
		note := func(s string) { mu.Lock(); log = append(log, s); mu.Unlock() }
		logged := func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(log, " ")
		}
		free := make(chan struct{})
		turn := h.begin(func(code int, _ textproto.MIMEHeader) error {
			note("hint")
			<-free
			note("sent")
			return nil
		})
		source := make(chan struct{})
		body := holdHints(&h, turn, io.NopCloser(readerFunc(func([]byte) (int, error) {
			note("read")
			<-source
			return 1, nil
		})), http.Header{"Expect": {"100-continue"}})
		h.add(turn, 103, nil)
		synctest.Wait()
		go func() {
			body.Read(make([]byte, 1))
			note("came")
		}()
		assert.Equal(t, "hint", logged())
		free <- struct{}{}
		assert.Equal(t, "hint sent read", logged())
		h.add(turn, 103, nil)
		assert.Equal(t, "hint sent read", logged())
		close(source)
		close(free)
		assert.Equal(t, "hint sent read came", logged())
		h.add(turn, 103, nil)
		assert.Equal(t, "hint sent read came hint sent", logged())
		require.NoError(t, h.end(nil))
	})
}
