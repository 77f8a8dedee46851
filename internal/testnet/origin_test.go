package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOriginScriptsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin()
		o.Handle("/a%2Fb", Text(200, "one", "ETag", `"1"`, "X", "a", "X", "b"), Text(503, "two"))
		o.Handle("/zero", &Script{})
		s := Serve(t, o)

		r := s.Get(t, "/a%2Fb?q=1", "Accept", "text/html")
		assert.Equal(t, 200, r.Status)
		assert.Equal(t, "one", r.Body)
		assert.Equal(t, []string{"a", "b"}, r.Header["X"])
		for range 2 {
			assert.Equal(t, 503, s.Get(t, "/a%2Fb").Status, "the last script stays")
		}
		assert.Equal(t, 404, s.Get(t, "/a/b").Status, "paths count as sent")
		assert.Equal(t, 200, s.Get(t, "/zero").Status)

		assert.Equal(t, 3, o.Count("/a%2Fb"))
		assert.Equal(t, 5, o.Total())
		first := o.Requests()[0]
		assert.Equal(t, "GET", first.Method)
		assert.Equal(t, "example.com", first.Host)
		assert.Equal(t, "q=1", first.URL.RawQuery)
		assert.Equal(t, "text/html", first.Header.Get("Accept"))
		last, ok := o.Last("/a%2Fb")
		assert.True(t, ok)
		assert.Empty(t, last.URL.RawQuery)
		_, ok = o.Last("/none")
		assert.False(t, ok)

		o.Handle(AnyPath, Text(200, "any"))
		assert.Equal(t, "any", s.Get(t, "/whatever").Body)
		o.Handle("/a%2Fb", Text(200, "again"), Text(500, ""))
		assert.Equal(t, "again", s.Get(t, "/a%2Fb").Body, "new scripts start from the first")
		o.Forget()
		assert.Zero(t, o.Total())
	})
}

func TestOriginGatesEachChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head, one, two := NewGate(), NewGate(), NewGate()
		o := NewOrigin()
		o.Handle("/", &Script{Gate: head, FlushHead: true, Body: []Chunk{{Gate: one, Data: "one"}, {Gate: two, Data: "two"}},
			Trailer: Header("X-Sum", "7")})
		s := Serve(t, o)

		got := make(chan *http.Response)
		go func() {
			r, err := s.Client.Get("http://example.com/")
			assert.NoError(t, err)
			got <- r
		}()
		synctest.Wait()
		<-head.Arrived()
		select {
		case <-got:
			t.Fatal("a head before its gate was opened")
		default:
		}
		assert.Equal(t, 1, o.InFlight())
		head.Open()
		head.Open()
		resp := <-got
		buf := make([]byte, 10)
		for _, step := range []struct {
			gate *Gate
			want string
		}{{one, "one"}, {two, "two"}} {
			synctest.Wait()
			step.gate.Open()
			n, err := resp.Body.Read(buf)
			require.NoError(t, err)
			assert.Equal(t, step.want, string(buf[:n]))
		}
		rest, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		assert.Empty(t, rest)
		assert.Equal(t, "7", resp.Trailer.Get("X-Sum"))
		resp.Body.Close()
		synctest.Wait()
		assert.Zero(t, o.InFlight())
	})
}

func TestOriginInformational(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin()
		script := Text(200, "body", "X", "final")
		script.Informational = []Head{{103, Header("Link", "</a.css>")}, {103, Header("Link", "</b.css>")}}
		o.Handle("/", script)
		s := Serve(t, o)
		var hints []string
		req, _ := http.NewRequest("GET", "http://example.com/", nil)
		req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h["Link"]))
				return nil
			}}))
		resp, err := s.Client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, []string{"103 [</a.css>]", "103 [</b.css>]"}, hints)
		assert.Empty(t, resp.Header.Get("Link"))
		assert.Equal(t, "final", resp.Header.Get("X"))
	})
}

func TestOriginBrokenBodies(t *testing.T) {
	tests := []struct {
		what   string
		script *Script
		body   string // what arrives
		fails  bool
	}{
		{"aborted in mid-body", &Script{Body: []Chunk{AbortChunk("half")}}, "half", true},
		{"short of its length", WrongLength(10, "12345"), "12345", true},
		{"longer than its length", WrongLength(3, "12345"), "123", false},
		{"raw, ended by the connection", &Script{Raw: true, Body: Chunks("a", "b")}, "ab", false},
		{"raw, broken off", &Script{Raw: true, Header: Header("Content-Length", "2"), Body: []Chunk{AbortChunk("a"), {Data: "b"}}}, "a", true},
		{"a length that net/http enforces", &Script{Header: Header("Content-Length", "2"), Body: Chunks("a", "bcd")}, "a", true},
		{"aborted before the head", &Script{Panic: http.ErrAbortHandler}, "", true},
		{"raw, closed before the head", &Script{Raw: true, Panic: true}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin()
				o.Handle("/", tt.script)
				r, err := Do(Serve(t, o).Client, "GET", "http://example.com/")
				assert.Equal(t, tt.fails, err != nil, "%v", err)
				if r != nil {
					assert.Equal(t, tt.body, r.Body)
				} else {
					assert.Empty(t, tt.body)
				}
			})
		})
	}
}

// A handler under test sees the panics themselves.
func TestOriginCalledDirectly(t *testing.T) {
	boom := errors.New("boom")
	o := NewOrigin()
	o.Handle("/boom", &Script{Panic: boom})
	o.Handle("/raw", &Script{Raw: true})
	o.Handle("/do", &Script{Do: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }})
	serve := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		o.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	assert.PanicsWithValue(t, boom, func() { serve("/boom") })
	assert.Panics(t, func() { serve("/raw") }, "a recorder has no connection to take over")
	assert.Equal(t, 418, serve("/do").Code)
	assert.Zero(t, o.InFlight())
}

func TestOriginBreaksOffWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, raw := range []bool{false, true} {
			o := NewOrigin()
			o.Handle("/", &Script{Raw: raw, FlushHead: true, Body: []Chunk{{Data: "a"}, {Gate: NewGate(), Data: "b"}}})
			s := Serve(t, o)
			ctx, cancel := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
			resp, err := s.Client.Do(req)
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, 1, o.InFlight())
			cancel()
			synctest.Wait()
			assert.Zero(t, o.InFlight(), "raw=%v", raw)
			resp.Body.Close()
		}
	})
}

func TestStubbornOriginStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		o := NewOrigin()
		o.Handle("/", &Script{Gate: gate, Stubborn: true})
		s := Serve(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-gate.Arrived()
			cancel()
		}()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
		_, err := s.Client.Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		assert.Equal(t, 1, o.InFlight())
		gate.Open()
		synctest.Wait()
		assert.Zero(t, o.InFlight())
	})
}

func TestOriginPeakAndBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		o := NewOrigin()
		o.Handle("/", &Script{ReadBody: true, Gate: gate})
		s := Serve(t, o)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				resp, err := s.Client.Post("http://example.com/", "text/plain", strings.NewReader(fmt.Sprint("body ", i)))
				if assert.NoError(t, err) {
					resp.Body.Close()
				}
			})
		}
		synctest.Wait()
		gate.Open()
		wg.Wait()
		assert.Equal(t, 8, o.Peak())
		seen := map[string]bool{}
		for _, r := range o.Requests() {
			seen[r.Body] = true
			assert.EqualValues(t, 6, r.ContentLength)
		}
		assert.Len(t, seen, 8)
		assert.True(t, seen["body 3"])
	})
}

func TestHeaderNeedsPairs(t *testing.T) {
	odd := []string{"a"}
	assert.Panics(t, func() { Header(odd...) })
	assert.Equal(t, http.Header{"A": {"1", "2"}}, Header("a", "1", "A", "2"))
}
