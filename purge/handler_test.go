package purge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func anyone(*http.Request) (string, error) { return "tester", nil }

func mustHandler(tb testing.TB, o HandlerOptions) *Handler {
	tb.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	h, err := NewHandler(o)
	require.NoError(tb, err)
	return h
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/purge", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestJSONCalls(t *testing.T) {
	k := strings.Repeat("ab", 32)
	tests := []struct {
		body string
		want int
		say  string // part of the answer
	}{
		{`{"purge":[{"kind":"everything","soft":true}]}`, 200, `"applied":1`},
		{`{"purge":[{"kind":"zone"},{"kind":"tag","zone":"z","tag":"a"}]}`, 200, `"applied":2`},
		{`{"purge":[{"kind":"url","url":"https://Example.com/a?b=c"}]}`, 200, `"applied":1`},
		{`{"purge":[{"kind":"exact-url","url":"https://example.com?b=c"}]}`, 200, `"applied":1`},
		{`{"purge":[{"kind":"host","url":"https://example.com"}]}`, 200, `"applied":1`},
		{`{"purge":[{"kind":"prefix","host":"example.com","path":"/a"}]}`, 200, `"applied":1`},
		{`{"purge":[{"kind":"group","origin":"https://a","tag":"b"}]}`, 200, `"applied":1`},
		{`{"purge":[{"kind":"key","key":"` + k + `"}]}`, 200, `"applied":1`},

		{``, 400, "must be an object"},
		{`null`, 400, "must be an object"},
		{`{}`, 400, "lists no selectors"},
		{`{"purge":[]}`, 400, "lists no selectors"},
		{`{"purge":{}}`, 400, "not a call"},
		{`{"purge":[{"kind":"zone"}],"dry_run":true}`, 400, "dry_run"},
		{`{"purge":[{"kind":"zone"}],"purge":[{"kind":"zone","zone":"b"}]}`, 400, "repeated"},
		{`{"Purge":[{"kind":"zone"}]}`, 400, "Purge"},
		{`{"purge":[{"kind":"zone"}]} {}`, 400, "follows"},
		{`{"purge":[{"kind":"zone"},{"kind":"tag","tags":"a"}]}`, 400, `"index":1`},
		{`{"purge":[{"kind":"zone"},{"kind":"tag","kind":"zone"}]}`, 400, `"index":1`},
		{`{"purge":[{"kind":"zone"},{"kind":"tag"}]}`, 400, `"index":1,"field":"tag"`},
		{`{"purge":[{"kind":"zone"},null]}`, 400, `"index":1`},
		{`{"purge":[{"kind":"Zone"}]}`, 400, `"field":"kind"`},
		{`{"purge":[{"kind":"key","key":"ab"}]}`, 400, `"field":"key"`},
		{`{"purge":[{"kind":"tag","tag":7}]}`, 400, `"field":"selector"`},
		{`{"purge":[{"kind":"prefix","url":"https://a/b?c=d"}]}`, 400, `"field":"query"`},
		{`{"purge":[{"kind":"url","url":"https://a/b","path":"/c"}]}`, 400, `"field":"url"`},
		{`{"purge":[{"kind":"url","url":"//a/b"}]}`, 400, `"field":"url"`},
		{`{"purge":[{"kind":"url","url":"https://me@a/b"}]}`, 400, `"field":"url"`},
	}
	for _, tt := range tests {
		l := mustNew(t, Options{})
		before := l.Now()
		w := post(mustHandler(t, HandlerOptions{List: l, Authorise: anyone}), tt.body)
		assert.Equal(t, tt.want, w.Code, tt.body)
		assert.Contains(t, w.Body.String(), tt.say, tt.body)
		assert.True(t, json.Valid(w.Body.Bytes()))
		assert.Equal(t, tt.want == 200, l.Now() > before, tt.body)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
}

// One call with 300 tags purges all of them (a product purged none, silently), and
// one with 100,000 says what to do.
func TestLargeCalls(t *testing.T) {
	l := mustNew(t, Options{})
	h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone})
	call := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"kind":"tag","zone":"z","tag":"%d"}`, i)
		}
		return `{"purge":[` + b.String()[1:] + `]}`
	}
	s := page(l, "/", "299")
	w := post(h, call(300))
	assert.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), `"applied":300`)
	assert.Equal(t, Gone, l.Check(s))
	before := l.Now()
	for _, body := range []string{call(100_000), call(1001), `{"purge":[` + strings.Repeat("{},", 100_000) + `{}]}`} {
		w = post(h, body)
		assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
		assert.Contains(t, w.Body.String(), "split")
		assert.Contains(t, w.Body.String(), "nothing was purged")
	}
	assert.Equal(t, before, l.Now())
	w = post(h, `{"purge":[`+strings.Repeat("{},", 500)+`{}]}`)
	assert.Equal(t, 400, w.Code)
	assert.Equal(t, maxNamed, strings.Count(w.Body.String(), `"index"`))
	assert.Contains(t, w.Body.String(), "501 selectors are wrong")
}

func TestQueuedAndBusyCalls(t *testing.T) {
	l := mustNew(t, Options{Rate: 1, Burst: 1, MaxQueued: 1})
	h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone})
	call := func(tag string) *httptest.ResponseRecorder {
		return post(h, `{"purge":[{"kind":"tag","tag":"`+tag+`"}]}`)
	}
	assert.Equal(t, 200, call("a").Code)
	w := call("b")
	assert.Equal(t, 202, w.Code)
	assert.JSONEq(t, `{"applied":0,"queued":1,"durable":false}`, w.Body.String())
	w = call("c")
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	require.NoError(t, l.Close(background))
	assert.Equal(t, 409, call("d").Code)
}

func TestNotDurableCall(t *testing.T) {
	d := &faultyDisk{}
	l, err := open(Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet()}, d)
	require.NoError(t, err)
	h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone})
	assert.Contains(t, post(h, `{"purge":[{"kind":"zone"}]}`).Body.String(), `"durable":true`)
	d.set(syscall.ENOSPC)
	w := post(h, `{"purge":[{"kind":"zone"}]}`)
	assert.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), `"durable":false`)
	assert.Contains(t, w.Body.String(), "not in the journal")
	_ = l.Close(background)
}

func TestState(t *testing.T) {
	l := mustNew(t, Options{Journal: filepath.Join(t.TempDir(), "j")})
	mustAdd(t, l, tagged("a"), tagged("b"), Selector{Kind: Zone, Zone: "z"})
	h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/purge", nil))
	assert.Equal(t, 200, w.Code)
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	assert.Equal(t, fmt.Sprint(l.Now()), got["now"])
	assert.Equal(t, map[string]any{"tag": 2.0, "zone": 1.0, "everything": 1.0}, got["kinds"])
	assert.Equal(t, 2.0, got["tombstones"])
	assert.Contains(t, got, "journal")

	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/purge", nil))
	assert.Equal(t, 405, w.Code)
}

// Whoever is refused hears of networks that are none.
func TestRefusalNamesNetworksThatAreNone(t *testing.T) {
	r := httptest.NewRequest(Method, "/", nil)
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:0:0/90")} {
		_, err := FromPrefixes([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), p})(r)
		assert.ErrorContains(t, err, "prefix 1 of those that are, "+p.String()+", is no network")
	}
}

// Nobody purges who isn't allowed to, and without an authoriser nobody does.
func TestAuthorisation(t *testing.T) {
	const token = "s3cret"
	allowed := FromPrefixes([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")})
	mapped := FromPrefixes([]netip.Prefix{{}, netip.MustParsePrefix("::ffff:198.51.100.0/90"), netip.MustParsePrefix("::ffff:192.0.2.0/120")})
	with := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header = header(append(pairs, "Content-Type", "application/json")...) }
	}
	from := func(addr string) func(*http.Request) {
		return func(r *http.Request) { with()(r); r.RemoteAddr = addr }
	}
	forwarded := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { with(name, value)(r); r.RemoteAddr = "192.0.2.9:1" }
	}
	tests := []struct {
		name string
		auth func(*http.Request) (string, error)
		do   func(*http.Request)
		want int
	}{
		{"not configured", nil, with("Authorization", "Bearer "+token), 405},
		{"token", BearerToken(token), with("Authorization", "Bearer "+token), 200},
		{"scheme in another case", BearerToken(token), with("Authorization", "bearer  "+token), 200},
		{"no token", BearerToken(token), with(), 401},
		{"wrong token", BearerToken(token), with("Authorization", "Bearer s3cre"), 401},
		{"wrong scheme", BearerToken(token), with("Authorization", "Basic "+token), 401},
		{"two lines", BearerToken(token), with("Authorization", "Bearer "+token, "Authorization", "Bearer x"), 401},
		{"empty token", BearerToken(""), with("Authorization", "Bearer "), 401},
		{"network", allowed, from("192.0.2.9:1"), 200},
		{"mapped", allowed, from("[::ffff:192.0.2.9]:1"), 200},
		{"network 6", allowed, from("[2001:db8::1%eth0]:1"), 200},
		{"elsewhere", allowed, from("198.51.100.1:1"), 403},
		{"no address", allowed, from("@"), 403},
		{"through a proxy", allowed, forwarded("X-Forwarded-For", "203.0.113.66"), 403},
		{"through a proxy, who claims the network", allowed, forwarded("X-Forwarded-For", "192.0.2.1"), 403},
		{"through a proxy of another kind", allowed, forwarded("Via", "1.1 proxy"), 403},
		{"through a proxy that was made to say nothing", allowed, forwarded("Connection", "X-Real-IP"), 403},
		{"through a proxy with the token", BearerToken(token), func(r *http.Request) {
			forwarded("X-Forwarded-For", "203.0.113.66")(r)
			r.Header.Set("Authorization", "Bearer "+token)
		}, 200},
		{"network as IPv6", mapped, from("192.0.2.9:1"), 200},
		{"network and peer as IPv6", mapped, from("[::ffff:192.0.2.9]:1"), 200},
		{"beside a network as IPv6", mapped, from("192.0.3.9:1"), 403},
		{"in what is more than IPv4 as IPv6", mapped, from("[::ffff:198.51.100.1]:1"), 403},
		{"no networks", FromPrefixes(nil), from("192.0.2.9:1"), 403},
		{"other error", func(*http.Request) (string, error) { return "", errors.New("no") }, with(), 403},
	}
	for _, tt := range tests {
		l := mustNew(t, Options{})
		h := mustHandler(t, HandlerOptions{List: l, Authorise: tt.auth})
		before := l.Now()
		for _, serve := range []func(http.ResponseWriter, *http.Request){h.ServeHTTP, h.ServePurge} {
			r := httptest.NewRequest(http.MethodPost, "http://example.com/", strings.NewReader(`{"purge":[{"kind":"zone"}]}`))
			tt.do(r)
			if before != l.Now() || tt.want != 200 {
				r.Method = Method
			}
			w := httptest.NewRecorder()
			serve(w, r)
			assert.Equal(t, tt.want, w.Code, tt.name)
			assert.Equal(t, tt.want == 401, w.Header().Get("WWW-Authenticate") != "")
		}
		assert.Equal(t, tt.want == 200, l.Now() == before+2, tt.name)
	}
}

// A form on another site can't purge with a visitor's address.
func TestContentType(t *testing.T) {
	l := mustNew(t, Options{})
	h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone})
	for _, ct := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json;;"} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"purge":[{"kind":"everything"}]}`))
		r.Header.Set("Content-Type", ct)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, http.StatusUnsupportedMediaType, w.Code, ct)
	}
}

// Tenants purge only what is theirs, and mistyped zones are errors.
func TestZones(t *testing.T) {
	l := mustNew(t, Options{})
	h := mustHandler(t, HandlerOptions{
		List:      l,
		Authorise: func(r *http.Request) (string, error) { return r.Header.Get("Who"), nil },
		Allow: func(who string, s Selector) error {
			if who == "root" || s.Kind != Everything && s.Zone == who {
				return nil
			}
			return errors.New("not yours")
		},
		ZoneOf: func(host string) (string, bool) {
			zone, ok := strings.CutSuffix(host, ".example")
			return zone, ok
		},
		KnownZone: func(zone string) bool { return zone == "a" || zone == "b" },
		Keyed:     func(s *Selector) { s.Query = "" },
	})
	tests := []struct {
		who, sel string
		want     int
	}{
		{"a", `"kind":"zone","zone":"a"`, 200},
		{"a", `"kind":"host","host":"a.example"`, 200},
		{"a", `"kind":"host","host":"a.example","zone":"a"`, 200},
		{"a", `"kind":"host","host":"b.example","zone":"a"`, 400},
		{"a", `"kind":"host","host":"b.example"`, 403},
		{"a", `"kind":"zone","zone":"b"`, 403},
		{"a", `"kind":"everything"`, 403},
		{"root", `"kind":"everything"`, 200},
		{"root", `"kind":"zone","zone":"c"`, 400},
		{"root", `"kind":"tag","tag":"t"`, 400},
		{"root", `"kind":"url","url":"http://c.example/"`, 400},
		{"root", `"kind":"url","url":"http://nowhere/"`, 400},
		{"root", `"kind":"exact-url","url":"http://a.example/?utm=1"`, 200},
	}
	s := NewSubject(Facts{Seq: l.Now() + 4, Zone: "a", Host: "a.example", Path: "/"})
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"purge":[{`+tt.sel+`}]}`))
		r.Header = header("Content-Type", "application/json", "Who", tt.who)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, tt.want, w.Code, "%s %s: %s", tt.who, tt.sel, w.Body)
	}
	assert.Equal(t, Gone, l.Check(s), "Keyed dropped the parameter")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = header("Who", "a")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, 403, w.Code)
}

func TestAuditLog(t *testing.T) {
	var log bytes.Buffer
	l := mustNew(t, Options{})
	h := mustHandler(t, HandlerOptions{List: l, Authorise: func(r *http.Request) (string, error) {
		if r.Header.Get("Ok") == "" {
			return "", errors.New("no\nentry")
		}
		return "eve\nlevel=ERROR", nil
	}, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
		`{"purge":[{"kind":"tag","zone":"z","tag":"`+strings.Repeat("é", 400)+`"},{"kind":"zone","zone":"z"}]}`))
	r.Header = header("Content-Type", "application/json", "Ok", "1")
	h.ServeHTTP(httptest.NewRecorder(), r)
	var line map[string]any
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	assert.Equal(t, "purge", line["msg"])
	assert.Equal(t, `"eve\nlevel=ERROR"`, line["who"])
	assert.Equal(t, 200.0, line["status"])
	assert.Contains(t, line["what"], `tag zone="z" tag="\u00e9`)
	assert.Contains(t, line["what"], `zone zone="z"`)
	assert.Less(t, log.Len(), 1500)

	log.Reset()
	r = httptest.NewRequest(Method, "http://example.com/a?b", nil)
	r.Header = header("Ok", "1")
	h.ServePurge(httptest.NewRecorder(), r)
	line = nil
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	assert.Equal(t, `"eve\nlevel=ERROR"`, line["who"])
	assert.Equal(t, 200.0, line["status"])
	assert.Contains(t, line["what"], "exact-url")

	log.Reset()
	for range 100 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	}
	assert.LessOrEqual(t, strings.Count(log.String(), "\n"), 2*maxRefusalsLogged, "anyone can send these")
	assert.NotContains(t, log.String(), "no\nentry")
}

// Whatever the body, there is no panic and no 5xx, and an error purges nothing.
func FuzzJSON(f *testing.F) {
	f.Add(`{"purge":[{"kind":"tag","zone":"z","tag":"a","soft":true},{"kind":"url","url":"https://a/b?c"}]}`)
	f.Add(`{"purge":[{"kind":"prefix","host":"a","path":"/%zz"},{"kind":"group","origin":"http://[::1]:80","tag":""}]}`)
	f.Add(`{"purge":[{"kind":"key","key":"` + strings.Repeat("0f", 32) + `"},null,7,{"kind":"everything"}]`)
	f.Fuzz(func(t *testing.T, body string) {
		l, err := New(Options{Rate: -1})
		require.NoError(t, err)
		before := l.Now()
		w := post(mustHandler(t, HandlerOptions{List: l, Authorise: anyone}), body)
		require.True(t, json.Valid(w.Body.Bytes()))
		require.Less(t, w.Code, 500)
		require.Equal(t, w.Code < 300, l.Now() > before)
	})
}
