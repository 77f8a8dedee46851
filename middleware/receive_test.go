package middleware

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/trace"
)

// sent is what a handler got of a request with a body.
type sent struct {
	length int64
	body   string
	err    error
}

func takeBody(out chan<- sent) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		out <- sent{r.ContentLength, string(b), err}
		w.WriteHeader(http.StatusNoContent)
	}
}

// A client holds no permit while it sends a body up to BodyBuffer, and its handler gets
// the request as it is; who is too slow or breaks off is told so, without the handler.
func TestBodyIsReceivedBeforeThePermit(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\n"
	for name, c := range map[string]struct {
		o       AdmissionOptions
		head    string
		body    string // sent after a second
		permits int    // held before that
		status  int
		got     *sent
	}{
		"small":           {head: "Content-Length: 3\r\n", body: "abc", status: 204, got: &sent{3, "abc", nil}},
		"as it expects":   {head: "Content-Length: 3\r\nExpect: 100-continue\r\n", body: "abc", status: 204, got: &sent{3, "abc", nil}},
		"as long as may":  {o: AdmissionOptions{BodyBuffer: 3}, head: "Content-Length: 3\r\n", body: "abc", status: 204, got: &sent{3, "abc", nil}},
		"longer":          {o: AdmissionOptions{BodyBuffer: 2}, head: "Content-Length: 3\r\n", body: "abc", permits: 1, status: 204, got: &sent{3, "abc", nil}},
		"no room for it":  {o: AdmissionOptions{BodyBuffers: 2}, head: "Content-Length: 3\r\n", body: "abc", permits: 1, status: 204, got: &sent{3, "abc", nil}},
		"off":             {o: AdmissionOptions{BodyBuffer: -1}, head: "Content-Length: 3\r\n", body: "abc", permits: 1, status: 204, got: &sent{3, "abc", nil}},
		"unknown length":  {head: "Transfer-Encoding: chunked\r\n", body: "3\r\nabc\r\n0\r\n\r\n", permits: 1, status: 204, got: &sent{-1, "abc", nil}},
		"an upgrade":      {head: "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n", body: "abc", permits: 1, status: 204, got: &sent{3, "abc", nil}},
		"an event stream": {head: "Accept: text/event-stream\r\nContent-Length: 3\r\n", body: "abc", permits: 1, status: 204, got: &sent{3, "abc", nil}},
		"too slow":        {head: "Content-Length: 3\r\n", body: "ab", status: 408},
		"broken off":      {head: "Content-Length: 3\r\n", body: "ab", status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				out := make(chan sent, 1)
				c.o.Limiter = &admission.Options{Limit: 5}
				r := newRig(t, Options{Admission: c.o}, takeBody(out))
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, head+c.head+"\r\n")
				require.NoError(t, err)
				br := bufio.NewReader(conn)
				if strings.Contains(c.head, "Expect") {
					line, err := br.ReadString('\n')
					require.NoError(t, err)
					require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
					_, err = br.ReadString('\n')
					require.NoError(t, err)
				}
				time.Sleep(time.Second)
				settle()
				require.Equal(t, c.permits, r.inUse())
				_, err = io.WriteString(conn, c.body)
				require.NoError(t, err)
				if c.status == 400 { // it sees no answer
					require.NoError(t, conn.Close())
					settle()
					require.Empty(t, out)
					require.Equal(t, trace.ClientGone, r.record().Outcome)
					require.Equal(t, string(whyBodyFault), r.record().Cache.Reason)
					require.Equal(t, int64(DefaultBodyBuffers), r.mw.governor.bodies.left.Load())
					return
				}
				res, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				require.Equal(t, c.status, res.StatusCode)
				if c.got != nil {
					require.Equal(t, *c.got, <-out)
					require.False(t, res.Close)
				}
				settle()
				require.Empty(t, out)
				require.Zero(t, r.inUse())
				if b := r.mw.governor.bodies; b != nil {
					want := c.o.BodyBuffers
					if want == 0 {
						want = DefaultBodyBuffers
					}
					require.Equal(t, want, b.left.Load(), "the room is given back")
				}
			})
		})
	}
}

// Whoever goes away while it's queued leaves the queue, with a small body as without.
func TestGoneClientWithABodyLeavesTheQueue(t *testing.T) {
	for _, body := range []string{"", "x", strings.Repeat("x", DefaultBodyBuffer)} {
		bubble(t, func(t *testing.T) {
			o := newWorks(0)
			r := newRig(t, limited(admission.Options{Limit: 1, Queue: 10, QueueTimeout: 5 * time.Second}), o)
			held := holdOne(t, r, "/held")
			conn, err := dialRig(r)
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "POST /q HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			require.NoError(t, err)
			settle()
			require.Equal(t, 1, r.waiting())
			require.NoError(t, conn.Close())
			settle()
			require.Zero(t, r.waiting())
			o.free()
			held.whole(t, 200, "/held")
			require.Zero(t, o.count("/q"), "served for nobody")
		})
	}
}

// Who is refused after its small body has come keeps its connection.
func TestRefusedAfterItsBodyKeepsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, limited(admission.Options{Limit: 1, Queue: -1}), o)
		held := holdOne(t, r, "/held")
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		br := bufio.NewReader(conn)
		for range 3 {
			_, err = io.WriteString(conn, "POST /q HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			require.NoError(t, err)
			res, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.Equal(t, 503, res.StatusCode)
			require.False(t, res.Close)
			time.Sleep(time.Second)
		}
		o.free()
		held.whole(t, 200, "/held")
	})
}

// What an outer handler says about a body reaches the wrapped one, as the body does that
// is longer than declared; and the request has its own body again afterwards.
func TestOuterHandlersBody(t *testing.T) {
	refused := errors.New("an outer handler's")
	for name, c := range map[string]struct {
		body io.Reader
		want sent
	}{
		"its error": {io.MultiReader(strings.NewReader("a"), failingReader{refused}), sent{3, "a", refused}},
		"longer":    {strings.NewReader("abcdef"), sent{3, "abcdef", nil}},
		"shorter":   {strings.NewReader("ab"), sent{3, "ab", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				out := make(chan sent, 1)
				s := newCrowd(t, limited(admission.Options{}))
				h := s.mw.Wrap(takeBody(out))
				r := request("POST", "/")
				body := io.NopCloser(c.body)
				r.Body, r.ContentLength = body, 3
				h.ServeHTTP(recorder(), r)
				require.Equal(t, c.want, <-out)
				require.Equal(t, body, r.Body)
			})
		})
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// Sizes that contradict each other are refused.
func TestBodyBuffersAreChecked(t *testing.T) {
	limiter := &admission.Options{}
	for want, o := range map[string]AdmissionOptions{
		"Admission.BodyBuffer = 1: has no effect without Admission.Limiter":           {BodyBuffer: 1},
		"Admission.BodyBuffers = -1: must not be negative":                            {Limiter: limiter, BodyBuffers: -1},
		"Admission.BodyBuffers = 5: has no effect, since BodyBuffer is off":           {Limiter: limiter, BodyBuffer: -1, BodyBuffers: 5},
		"Admission.BodyBuffer = 6: is above Admission.BodyBuffers (5)":                {Limiter: limiter, BodyBuffer: 6, BodyBuffers: 5},
		"Admission.BodyBuffer = 33554433: is above the default of Admission.BodyBuff": {Limiter: limiter, BodyBuffer: 32<<20 + 1},
	} {
		_, err := New(Options{Admission: o})
		require.ErrorContains(t, err, want)
	}
}

// A handler that refuses a request whose body is all there keeps its connection, whether
// it was read before the permit or by the handler.
func TestHandlersRefusalAfterTheBodyKeepsTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		o     Options
		reads int // bytes; -1: all
		kept  bool
	}{
		"received before":         {limited(admission.Options{}), 0, true},
		"received before, read":   {limited(admission.Options{}), -1, true},
		"read by the handler":     {Options{}, -1, true},
		"read in part":            {Options{}, 1, false},
		"not read":                {Options{}, 0, false},
		"received before, closed": {limited(admission.Options{}), -2, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				r := newRig(t, c.o, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case c.reads == -2:
						_ = r.Body.Close()
					case c.reads < 0:
						_, _ = io.Copy(io.Discard, r.Body)
					default:
						_, _ = io.ReadFull(r.Body, make([]byte, c.reads))
					}
					WriteRefusal(w, r, 429, time.Second)
				}))
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				br := bufio.NewReader(conn)
				for range 3 {
					_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
					require.NoError(t, err)
					res, err := http.ReadResponse(br, nil)
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, res.Body)
					require.NoError(t, err)
					require.Equal(t, 429, res.StatusCode)
					require.Equal(t, c.kept, !res.Close)
					if !c.kept {
						return
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}
