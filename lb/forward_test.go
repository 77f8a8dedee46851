package lb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// roundTripFunc is a transport for tests of what goes in and out.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through sends a request through a proxy with options and returns the header
// that the origin gets.
func through(t *testing.T, o ProxyOptions, peer string, header ...string) http.Header {
	t.Helper()
	var got http.Header
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Clone()
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
	})
	p, err := NewProxy(o)
	require.NoError(t, err)
	r := httptest.NewRequest("GET", "/", nil)
	r.Host, r.RemoteAddr = "shop.test", peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	before := r.Header.Clone()
	p.ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, before, r.Header, "the visitor's request is left alone")
	delete(got, "User-Agent")
	delete(got, "Via")
	return got
}

func TestForwardedFields(t *testing.T) {
	trusted := ProxyOptions{TrustedPeers: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}
	said := []string{
		"X-Forwarded-For", "203.0.113.1", "X-Forwarded-For", "203.0.113.2", "X-Forwarded-Host", "www.shop.test",
		"X-Forwarded-Proto", "https", "X-Forwarded-Port", "443", "X-Real-Ip", "203.0.113.1", "Forwarded", "for=203.0.113.1",
		"X-Forwarded-Scheme", "https",
	}
	plain := http.Header{"X-Forwarded-For": {"198.51.100.7"}, "X-Forwarded-Host": {"shop.test"}, "X-Forwarded-Proto": {"http"}}
	with := func(h http.Header, pairs ...string) http.Header {
		h = h.Clone()
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, c := range []struct {
		name   string
		o      ProxyOptions
		peer   string
		header []string
		want   http.Header
	}{
		{"nothing said", ProxyOptions{}, "198.51.100.7:1", nil, plain},
		{"stranger", trusted, "198.51.100.7:1", said, plain},
		{"stranger in other spellings", trusted, "198.51.100.7:1",
			[]string{"X_Forwarded_For", "1.1.1.1", "x_real_ip", "1.1.1.1", "X-Forwarded_Proto", "https"}, plain},
		{"nobody is trusted by default", ProxyOptions{}, "127.0.0.1:1", said, with(plain, "X-Forwarded-For", "127.0.0.1")},
		{"proxy", trusted, "10.1.2.3:1", said, http.Header{
			"X-Forwarded-For": {"203.0.113.1, 203.0.113.2, 10.1.2.3"}, "X-Forwarded-Host": {"www.shop.test"},
			"X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"}, "X-Real-Ip": {"203.0.113.1"},
			"X-Forwarded-Scheme": {"https"}, "Forwarded": {`for=203.0.113.1, for=10.1.2.3;host="shop.test";proto=http`},
		}},
		{"proxy that says nothing", trusted, "10.1.2.3:1", nil, with(plain, "X-Forwarded-For", "10.1.2.3")},
		{"proxy that says nonsense", trusted, "10.1.2.3:1", []string{"X-Forwarded-Proto", "javascript"}, with(plain, "X-Forwarded-For", "10.1.2.3")},
		{"proxy over IPv6", trusted, "[2001:db8::1]:1", []string{"X-Forwarded-Proto", "HTTPS"},
			with(plain, "X-Forwarded-For", "2001:db8::1", "X-Forwarded-Proto", "https")},
		{"IPv4 as IPv6", trusted, "[::ffff:10.1.2.3]:1", []string{"X-Forwarded-Proto", "https"},
			with(plain, "X-Forwarded-For", "10.1.2.3", "X-Forwarded-Proto", "https")},
		{"no address", trusted, "@", said, http.Header{"X-Forwarded-Host": {"shop.test"}, "X-Forwarded-Proto": {"http"}}},
		{"Forwarded wanted", ProxyOptions{SendForwarded: true}, "198.51.100.7:1", said,
			with(plain, "Forwarded", `for=198.51.100.7;host="shop.test";proto=http`)},
		{"Forwarded wanted, IPv6", ProxyOptions{SendForwarded: true}, "[2001:db8::9]:1", nil,
			with(plain, "X-Forwarded-For", "2001:db8::9", "Forwarded", `for="[2001:db8::9]";host="shop.test";proto=http`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, through(t, c.o, c.peer, c.header...))
		})
	}
}

// Fields of one connection don't pass. A client can't have fields removed that
// are for everyone, or that the application protects, by calling them such.
func TestConnectionFields(t *testing.T) {
	own := http.Header{"X-Forwarded-For": {"198.51.100.7"}, "X-Forwarded-Host": {"shop.test"}, "X-Forwarded-Proto": {"http"}}
	for _, c := range []struct {
		name   string
		header []string
		want   []string // besides own
	}{
		{"known ones", []string{
			"Connection", "close", "Proxy-Connection", "keep-alive", "Keep-Alive", "timeout=5", "Proxy-Authorization", "Basic x",
			"Proxy-Authenticate", "Basic", "Te", "gzip", "Transfer-Encoding", "chunked", "Upgrade", "foo", "Trailer", "X"}, nil},
		{"named ones", []string{"Connection", "X-Hop, close", "Connection", "x-other", "X-Hop", "1", "X-Other", "2", "X-Stays", "3"}, []string{"X-Stays", "3"}},
		{"the proxy's own", []string{"Connection", "X-Forwarded-For, X-Forwarded-Proto, Via, X-Forwarded-Host"}, nil},
		{"for everyone", []string{"Connection", "Cookie, authorization, X-Hop, Accept-Encoding, Cache-Control, If-None-Match",
			"Cookie", "a=b", "Authorization", "Bearer x", "X-Hop", "1", "Accept-Encoding", "br", "Cache-Control", "no-cache", "If-None-Match", `"1"`},
			[]string{"Cookie", "a=b", "Authorization", "Bearer x", "Accept-Encoding", "br", "Cache-Control", "no-cache", "If-None-Match", `"1"`}},
		{"protected", []string{"Connection", "close, x-user", "X-User", "alice"}, []string{"X-User", "alice"}},
		{"trailers are understood", []string{"Te", "trailers, deflate", "Connection", "TE"}, []string{"Te", "trailers"}},
		{"nonsense", []string{"Connection", ", ,,\t, @, host"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := own.Clone()
			for i := 0; i < len(c.want); i += 2 {
				want.Add(c.want[i], c.want[i+1])
			}
			assert.Equal(t, want, through(t, ProxyOptions{Protect: []string{"x-user"}}, "198.51.100.7:1", c.header...))
		})
	}
}

// What some origins take for a field of Protect doesn't pass; what is one does.
func TestAliasesOfProtectedFields(t *testing.T) {
	o := ProxyOptions{Protect: []string{"X-User", "X_Tenant", "X-Both", "X_Both"}, TrustedPeers: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, peer := range []string{"198.51.100.7:1", "10.0.0.1:1"} {
		got := through(t, o, peer, "X-User", "alice", "X_User", "admin", "x_uSER", "admin", "X_Tenant", "1", "X-Tenant", "2",
			"X-Both", "3", "X_Both", "4", "X_Users", "5", "X_Other", "6", "X-Use_", "7")
		for name := range got {
			if strings.HasPrefix(name, "X-Forwarded-") {
				delete(got, name)
			}
		}
		assert.Equal(t, http.Header{"X-User": {"alice"}, "X_tenant": {"1"}, "X-Both": {"3"}, "X_both": {"4"}, "X_users": {"5"}, "X_other": {"6"}, "X-Use_": {"7"}}, got)
	}
	p := &proxy{o: o}
	assert.False(t, p.inTrailer("X_tenant") || p.inTrailer("X-Tenant") || p.inTrailer("X_user"))
	assert.True(t, p.inTrailer("X_users"))
}

func TestVia(t *testing.T) {
	for _, c := range []struct {
		proto [2]int
		prior []string
		want  string
	}{
		{[2]int{1, 1}, nil, "1.1 weir"},
		{[2]int{1, 0}, nil, "1.0 weir"},
		{[2]int{2, 0}, nil, "2.0 weir"},
		{[2]int{3, 0}, nil, "3.0 weir"},
		{[2]int{1, 1}, []string{"1.0 fred", "1.1 p.test"}, "1.0 fred, 1.1 p.test, 1.1 weir"},
	} {
		var got []string
		p := newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
			got = r.Header["Via"]
			return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
		}))
		r := httptest.NewRequest("GET", "/", nil)
		r.ProtoMajor, r.ProtoMinor = c.proto[0], c.proto[1]
		for _, v := range c.prior {
			r.Header.Add("Via", v)
		}
		p.ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, []string{c.want}, got)
	}
}

// What arrives at the origin is what the client sent: host, path and query byte
// by byte, also what Go would call malformed.
func TestTargetIsPassedOnAsItIs(t *testing.T) {
	var got string
	srv := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.Host + r.RequestURI
	}))
	for _, target := range []string{"/a%2Fb/../c//d?x=1;y=2&z=%zz&a=%20+", "/?", "/%C3%A9?q", "/a?b=c?d"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: Shop.test:8080\r\nConnection: close\r\n\r\n", target)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, 200, res.StatusCode)
		assert.Equal(t, "GET Shop.test:8080"+target, got)
		c.Close()
	}
}

// Requests whose length can be read in two ways are refused, or reach the origin
// with one length only: it never sees another request than the proxy did.
func TestAmbiguousLength(t *testing.T) {
	smuggled := "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, fields := range []string{
		fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(smuggled)),
		"Content-Length: 1\r\nContent-Length: 40\r\n",
		"Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding : chunked\r\n", "Transfer-Encoding: xchunked\r\n",
		"Content-Length: +1\r\n", "Content-Length: 1, 1x\r\n",
	} {
		t.Run(fields, func(t *testing.T) { ambiguousLength(t, fields+"\r\n"+smuggled) })
	}
}

func ambiguousLength(t *testing.T, rest string) {
	var mu sync.Mutex
	var front, seen []string
	note := func(to *[]string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		*to = append(*to, r.Method+" "+r.URL.Path)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(&seen, r)
		io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(origin.Close)
	p := newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"}))
	srv := proxied(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(&front, r)
		p.ServeHTTP(w, r)
	}))
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	io.WriteString(c, "POST /front HTTP/1.1\r\nHost: a.test\r\n"+rest)
	c.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, c)
	c.Close()
	srv.Close() // both wait for their handlers
	origin.Close()
	mu.Lock()
	defer mu.Unlock()
	if assert.LessOrEqual(t, len(seen), len(front)) { // the client has left by the second
		assert.True(t, slices.Equal(front[:len(seen)], seen), "%q, not %q", seen, front)
	}
}

// The origin's fields of one connection don't reach the client, others do, in
// all their lines.
func TestResponseFields(t *testing.T) {
	srv := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("Location", "http://elsewhere.test/")
		h["Date"] = nil
		w.WriteHeader(http.StatusFound)
	}))
	c := srv.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := c.Get(srv.URL)
	require.NoError(t, err)
	res.Body.Close()
	res.Header.Del("Date")
	assert.Equal(t, http.StatusFound, res.StatusCode)
	assert.Equal(t, http.Header{"Set-Cookie": {"a=1", "b=2"}, "Location": {"http://elsewhere.test/"}, "Content-Length": {"0"}}, res.Header)
}

type retryLater struct{ error }

func (retryLater) RetryAfter() time.Duration { return 1500 * time.Millisecond }

func TestProxyErrorStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		after  string
	}{
		{errors.New("odd"), 502, ""},
		{&TransportError{Failure: FailureDial, Err: errOdd}, 502, ""},
		{&TransportError{Failure: FailureBodyCut, Err: errOdd}, 502, ""},
		{&TransportError{Failure: FailureHeadTimeout, Err: errOdd}, 504, ""},
		{fmt.Errorf("second try: %w", &TransportError{Failure: FailureDialTimeout, Err: errOdd}), 504, ""},
		{&TransportError{Failure: FailureDeadline, Err: errOdd}, 504, ""},
		{&TransportError{Failure: FailureShutdown, Err: errOdd}, 503, ""},
		{&TransportError{Failure: FailureRequest, Err: errOdd}, 400, ""},
		{&TransportError{Failure: FailureRequest, Err: &http.MaxBytesError{Limit: 1}}, 413, ""},
		{&NoOriginError{}, 503, ""},
		{&NoOriginError{AtCapacity: true}, 503, "1"},
		{&NoOriginError{UnknownHost: true}, 421, ""},
		{ErrClosed, 503, ""},
		{fmt.Errorf("shed: %w", retryLater{errOdd}), 503, "2"},
	} {
		p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, c.err }))
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		want := http.Header{"Cache-Control": {"no-store"}}
		if c.after != "" {
			want.Set("Retry-After", c.after)
		}
		assert.Equal(t, c.status, w.Code, "%v", c.err)
		assert.Equal(t, want, w.Header(), "%v", c.err)
	}
}

var errOdd = errors.New("odd")

// An error while the client still uploads reaches it at once and doesn't keep its
// connection.
func TestProxyErrorBeforeTheUploadIsOver(t *testing.T) {
	p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, errOdd }))
	srv := proxied(t, p)
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nsome")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	assert.Equal(t, 502, res.StatusCode)
	assert.True(t, res.Close)
	io.Copy(io.Discard, c) // ends when the server closes
}

func TestProxyOptions(t *testing.T) {
	_, err := NewProxy(ProxyOptions{
		TrustedPeers: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:0:0/90")}, Via: "a b", Protect: []string{"X User"}, Upgrades: []string{""},
	})
	var fields []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		ce, ok := errors.AsType[*ConfigError](e)
		require.True(t, ok)
		assert.NotEmpty(t, ce.Reason)
		fields = append(fields, strings.TrimPrefix(ce.Field, "ProxyOptions."))
	}
	assert.Equal(t, []string{"Transport", "TrustedPeers", "TrustedPeers", "Via", "Protect", "Upgrades"}, fields)
}

func TestProxyRefusesConnect(t *testing.T) {
	p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) { panic("reached") }))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("CONNECT", "a.test:443", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}
