package lb

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func noContent() *http.Response {
	return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}
}

// Transports of all kinds see by the URL where a request came in.
func TestTransportSeesSchemeAndHost(t *testing.T) {
	for scheme, state := range map[string]*tls.ConnectionState{"http": nil, "https": {}} {
		got := ""
		p := newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			return noContent(), nil
		}))
		r := httptest.NewRequest("GET", "/p?q", nil)
		r.Host, r.TLS = "shop.test:81", state
		p.ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, scheme+"://shop.test:81/p?q", got)
	}
}

// A transport that appends to one of the forwarded fields changes no other.
func TestForwardedFieldsAreApart(t *testing.T) {
	var got http.Header
	p := newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			_ = append(r.Header[name], "more")
		}
		got = r.Header.Clone()
		return noContent(), nil
	}))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr, r.Host = "198.51.100.7:1", "shop.test"
	p.ServeHTTP(httptest.NewRecorder(), r)
	got.Del("Via")
	got.Del("User-Agent")
	assert.Equal(t, http.Header{"X-Forwarded-For": {"198.51.100.7"}, "X-Forwarded-Host": {"shop.test"}, "X-Forwarded-Proto": {"http"}}, got)
}

// What a trusted peer says of the client isn't removed for being named in Connection.
func TestForwardingFieldsAreForEveryone(t *testing.T) {
	o := ProxyOptions{TrustedPeers: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	got := through(t, o, "10.1.2.3:1", "Connection", "x-real-ip, X-Forwarded-Prefix, X-Hop",
		"X-Real-Ip", "203.0.113.1", "X-Forwarded-Prefix", "/shop", "X-Hop", "1")
	assert.Equal(t, http.Header{
		"X-Forwarded-For": {"10.1.2.3"}, "X-Forwarded-Host": {"shop.test"}, "X-Forwarded-Proto": {"http"},
		"X-Real-Ip": {"203.0.113.1"}, "X-Forwarded-Prefix": {"/shop"},
	}, got)
}

// A host with quotation marks can't end the quoted string that it stands in.
func TestForwardedQuotesTheHost(t *testing.T) {
	in := httptest.NewRequest("GET", "/", nil)
	in.Host, in.TLS = `a";for=1.2.3.4;x="\`, &tls.ConnectionState{}
	assert.Equal(t, `for=1.1.1.1, for=unknown;host="a\";for=1.2.3.4;x=\"\\";proto=https`, forwardedElement("for=1.1.1.1", "", in))
}

// Names of trailers without content to come after announce nothing.
func TestTrailersOfNoContentAreDropped(t *testing.T) {
	got := http.Header{"unseen": nil}
	p := newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
		got = r.Trailer
		return noContent(), nil
	}))
	r := httptest.NewRequest("GET", "/", nil)
	r.Trailer = http.Header{"X-User": nil}
	p.ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, http.Header(nil), got)
}

// Trailers are taken over once: afterwards the map is the transport's.
func TestTrailersAreCopiedOnce(t *testing.T) {
	u := newUploaded(http.NoBody, httptest.NewRequest("POST", "/", nil), nil)
	came := http.Header{"X-Sum": {"4"}}
	out := u.trailers(came, func(string) bool { return true })
	for range 2 {
		_, err := u.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		came["X-Sum"] = []string{"5"}
	}
	assert.Equal(t, http.Header{"X-Sum": {"4"}}, out)
}

// What handlers outside share between responses isn't written to.
func TestResponseFieldsAreAppendedToACopy(t *testing.T) {
	shared := []string{"outer", "kept"}
	p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) {
		res := noContent()
		res.Header["X-Both"] = []string{"origin"}
		return res, nil
	}))
	w := httptest.NewRecorder()
	w.Header()["X-Both"] = shared[:1]
	p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	assert.Equal(t, [][]string{{"outer", "origin"}, {"outer", "kept"}}, [][]string{w.Header()["X-Both"], shared})
}

// A failure after early hints has the outer handlers' fields, like a response.
func TestErrorAfterEarlyHintsKeepsTheOuterHeader(t *testing.T) {
	p := newProxy(t, transportTo(t, listen(t, func(c net.Conn) {
		readHead(c)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	}), TransportOptions{Scheme: "http"}))
	w := &copied{ResponseRecorder: httptest.NewRecorder()}
	w.Header().Set("X-Outer", "1")
	p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	assert.Equal(t, []string{"103 true", "502 false"}, w.seen)
	assert.Equal(t, http.Header{"X-Outer": {"1"}, "Cache-Control": {"no-store"}}, w.Header())
}

// Nobody takes the response of a client that is gone for a whole one.
func TestRequestOfAClientThatIsGoneIsAborted(t *testing.T) {
	p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, context.Canceled }))
	ctx, cancel := context.WithCancel(background)
	cancel()
	w := httptest.NewRecorder()
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx)) })
	assert.Empty(t, w.Result().Header)
}

// A full buffer waits a moment for more to go out with it, and no longer.
func TestFullBufferGoesOutInAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := make(chan struct{})
		reads := 0
		body := io.NopCloser(readerFunc(func(p []byte) (int, error) {
			switch reads++; reads {
			case 1:
				return 1, nil // goes out at once, and the head with it
			case 2:
				return len(p), nil
			}
			<-rest
			return 0, io.EOF
		}))
		p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, ContentLength: -1}, nil
		}))
		rec := httptest.NewRecorder()
		w := &flushCounter{ResponseWriter: rec}
		served := make(chan struct{})
		go func() { defer close(served); p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)) }()
		synctest.Wait()
		assert.Equal(t, []int{1 + bufferSize, 1}, []int{rec.Body.Len(), int(w.n.Load())})
		time.Sleep(flushDelay)
		synctest.Wait()
		assert.EqualValues(t, 2, w.n.Load())
		close(rest)
		<-served
	})
}

// The client has a moment to read the response before its connection is closed under
// what it still sends, and no more than that.
func TestRestOfAnUploadIsTakenForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubbled(t, newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, errOdd })))
		go io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nsome")
		br := bufio.NewReader(c)
		_, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		began := time.Now()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for err := error(nil); err == nil; time.Sleep(lingerTime / 10) {
				_, err = io.WriteString(c, "x")
			}
		}()
		defer func() { c.Close(); <-sent }()
		_, err = br.ReadByte()
		assert.Error(t, err)
		assert.Equal(t, lingerTime, time.Since(began).Truncate(lingerTime))
	})
}

// A body that hears no deadline holds the handler up for a moment only.
func TestBodyThatHearsNoDeadlineDoesntHoldTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		deaf := io.NopCloser(readerFunc(func([]byte) (int, error) { <-never; return 0, io.EOF }))
		p := newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
			go r.Body.Read(make([]byte, 1))
			synctest.Wait()
			return nil, errOdd
		}))
		began := time.Now()
		c := bubbled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = deaf
			p.ServeHTTP(w, r)
			assert.Equal(t, lingerTime, time.Since(began))
		}))
		go io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nsome")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, 502, res.StatusCode)
		close(never)
		c.Close()
		synctest.Wait()
	})
}

// closedBody is a body that tells whether it was closed.
type closedBody struct {
	io.Reader
	closed *atomic.Int32
}

func (b closedBody) Close() error { b.closed.Add(1); return nil }

// A request that isn't sent is closed all the same, as http.RoundTripper has it.
func TestBodyOfARefusedRequestIsClosed(t *testing.T) {
	var closed atomic.Int32
	tr := transportTo(t, deadAddress(t), TransportOptions{Scheme: "http"})
	r := newRequest(t, "PUT", "")
	r.Body, r.ContentLength, r.URL.RawQuery = closedBody{http.NoBody, &closed}, 3, "a b"
	_, err := tr.RoundTrip(r)
	assert.Equal(t, TransportError{Failure: FailureRequest}, asTransportError(t, err))
	assert.EqualValues(t, 1, closed.Load())
}
