package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// copied notes with which heads a server takes a copy of the header.
type copied struct {
	*httptest.ResponseRecorder
	seen []string
}

func (w *copied) WriteHeader(status int) {
	_, ok := w.Header()["Content-Length"]
	w.seen = append(w.seen, fmt.Sprint(status, " ", ok))
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
	}
}

// The header is changed after an interim response, so that the server must have a copy
// of its own.
func TestServerCopiesInterimHeaders(t *testing.T) {
	for _, method := range []string{"GET", "POST", "HEAD"} {
		mw, err := New(Options{})
		require.NoError(t, err)
		w := &copied{ResponseRecorder: httptest.NewRecorder()}
		mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, []string{"103 true", "204 false"}, w.seen, method)
		require.NoError(t, mw.Close(context.Background()))
	}
}

// interims keeps the headers of 1xx responses.
type interims struct {
	*httptest.ResponseRecorder
	heads []http.Header
}

func (w *interims) WriteHeader(status int) {
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
		return
	}
	h := w.Header().Clone()
	delete(h, "Content-Length")
	w.heads = append(w.heads, h)
}

// httputil.ReverseProxy hands on interim responses with the fields of its connection to
// the origin, which a client over HTTP/2 must refuse.
func TestInterimResponsesHaveNoConnectionFields(t *testing.T) {
	for _, method := range []string{"GET", "POST", "HEAD"} {
		mw, err := New(Options{})
		require.NoError(t, err)
		w := &interims{ResponseRecorder: httptest.NewRecorder()}
		mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			for name, value := range map[string]string{
				"Connection": "keep-alive, X-Secret", "X-Secret": "s", "Keep-Alive": "timeout=5", "Upgrade": "h2c", "Link": "</a.css>",
			} {
				h.Set(name, value)
			}
			before := h.Clone()
			w.WriteHeader(http.StatusEarlyHints)
			require.Equal(t, before, h)
			clear(h)
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, []http.Header{{"Link": {"</a.css>"}}}, w.heads, method)
		require.NoError(t, mw.Close(context.Background()))
	}
}

// A client that doesn't take an interim response, be it its handler's or the 100
// (Continue) that net/http sends when the body is read, is cut off after a stall
// timeout like one that doesn't take an answer.
func TestUnreadInterimResponsesHoldNoPermit(t *testing.T) {
	hint := func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Link"] = []string{"</a.css>; rel=preload"}
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}
	read := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	const expects = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx"
	for name, c := range map[string]struct {
		request string
		h       http.HandlerFunc
		o       Options
	}{
		"of a fetch":            {request: "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", h: hint},
		"that is passed on":     {request: "POST /a HTTP/1.1\r\nHost: a\r\n\r\n", h: hint},
		"100":                   {request: expects, h: read},
		"100, bodies unwatched": {request: expects, h: read, o: Options{BodyTimeout: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // net/http's patience with a connection that it closes
				c.o.Admission = guardedOptions().Admission
				c.o.Admission.Limiter = &admission.Options{Limit: 1, Queue: -1}
				r := newRig(t, c.o, c.h)
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				go func() { _, _ = io.WriteString(conn, c.request) }()
				time.Sleep(DefaultStallTimeout - time.Second)
				require.Equal(t, 1, r.mw.AdmissionStats().Overload.InFlight, "before the time is over")
				time.Sleep(4 * time.Second)
				require.Zero(t, r.mw.AdmissionStats().Overload.InFlight)
				require.Zero(t, r.mw.AdmissionStats().Limiter.InUse)
			})
		})
	}
}

// The deadline for the 100 (Continue) is none for what comes after it: neither for the
// body, nor for the answer to a body that never comes.
func TestContinueLeavesNoDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(time.Minute)
		r := newRig(t, Options{BodyTimeout: -1}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			time.Sleep(2 * DefaultStallTimeout)
			_, _ = fmt.Fprint(w, string(b), err)
		}))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		br := bufio.NewReader(conn)
		for range 2 {
			_, err = io.WriteString(conn, "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
			require.NoError(t, err)
			res, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusContinue, res.StatusCode)
			time.Sleep(2 * DefaultStallTimeout)
			_, err = io.WriteString(conn, "abc")
			require.NoError(t, err)
			res, err = http.ReadResponse(br, nil)
			require.NoError(t, err)
			b, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, "abc<nil>", string(b))
		}
	})
}
