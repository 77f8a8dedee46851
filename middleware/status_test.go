package middleware

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

var debugFields = []string{"Weir-Cache-Key", "Weir-Cache-Key-Hash", "Weir-Cache-Reason", "Weir-Cache-Route", "Weir-Cache-Origin"}

// The fields that explain an answer are sent to whom Debug admits, on hits,
// misses and bypasses, and to nobody else, whatever was stored for whom.
func TestDebugFieldsOnlyForTheAdmitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Debug: func(r *http.Request) bool { return r.Header.Get("X-Debug") == "secret" }}, public("page"))
		const key = "scheme:4:http host:11:example.com method:3:GET path:2:/a q:1:b:1:1"
		for _, reason := range []string{"nothing is stored under the key", "the stored response is fresh"} {
			r := s.get("/a?b=1", "X-Debug", "secret")
			require.Equal(t, reason, r.header.Get("Weir-Cache-Reason"))
			require.Equal(t, key, r.header.Get("Weir-Cache-Key"))
			require.Equal(t, key, r.record.Cache.KeyText)
			short := cachekey.Key(r.record.Cache.Key).Short()
			require.Equal(t, short, r.header.Get("Weir-Cache-Key-Hash"))
			require.Equal(t, "default", r.header.Get("Weir-Cache-Route"))
			require.Contains(t, r.header.Get("Cache-Status"), `;key="`+short+`";detail="`+reason+`"`)
		}
		r := s.do("POST", "/a", "X-Debug", "secret")
		require.Equal(t, "responses to this method aren't reused", r.header.Get("Weir-Cache-Reason"))
		require.NotContains(t, r.header, "Weir-Cache-Key")
		for _, method := range []string{"GET", "POST"} {
			for range 2 {
				r = s.do(method, "/other?c=d")
				for _, name := range debugFields {
					require.NotContains(t, r.header, name)
				}
				require.Empty(t, r.record.Cache.KeyText)
				require.NotContains(t, r.header.Get("Cache-Status"), "key=")
			}
		}
		r = s.get("/a?b=1")
		r.is(t, hit("page", 60, 0))
	})
}

// Names are configurable, and the word alone can be left out.
func TestConfiguredNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Name: "my edge", StatusHeader: "x-cache"}, public("page"))
		r := s.get("/")
		require.Equal(t, "MISS", r.header.Get("X-Cache"))
		require.NotContains(t, r.header, "Weir-Cache-Status")
		require.Equal(t, `"my edge";fwd=uri-miss;fwd-status=200;ttl=60;stored`, r.header.Get("Cache-Status"))
		r = s.get("/")
		require.Equal(t, `"my edge";hit;ttl=60`, r.header.Get("Cache-Status"))
		s = newSite(t, Options{StatusHeader: "-"}, public("page"))
		r = s.get("/")
		require.NotContains(t, r.header, "Weir-Cache-Status")
		require.NotContains(t, r.header, "X-Cache")
	})
}

// A cache nearer to the origin has its member first; what stood in the header
// before, from an outer handler, isn't from there.
func TestCacheStatusOfUpstreamCaches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Cache-Status", "shield;hit"))
		s.get("/")
		r := s.get("/")
		require.Equal(t, []string{"shield;hit", "weir;hit;ttl=60"}, r.header["Cache-Status"])
		w := recorder()
		w.Header().Set("Cache-Status", "outer;hit")
		r = s.send(w, request("GET", "/"))
		require.Equal(t, []string{"shield;hit", "weir;hit;ttl=60"}, r.header["Cache-Status"])
	})
}

// The hook is called once, also when the wrapped handler panics, past the cache
// and in a fetch; the panic reaches the server as it was.
func TestHookIsCalledOnceOnPanic(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, value := range []any{http.ErrAbortHandler, "boom"} {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Logger: quietLog()}, &testnet.Script{Panic: value})
				require.PanicsWithValue(t, value, func() { s.h.ServeHTTP(recorder(), request(method, "/")) })
				s.mu.Lock()
				defer s.mu.Unlock()
				require.Len(t, s.records, 1)
				require.Equal(t, trace.Aborted, s.records[0].Outcome)
				require.Equal(t, method, s.records[0].Method)
			})
		}
	}
}

// A record that an outer handler put into the context is the one that is filled
// in and given to the hook.
func TestRecordOfAnOuterContextIsFilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen *trace.Record
		o := testnet.NewOrigin()
		o.Handle(testnet.AnyPath, public("page"))
		mw, err := New(Options{Hook: func(r *trace.Record) { seen = r }})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		h := mw.Wrap(o)
		var rec trace.Record
		start := time.Now()
		r := request("GET", "/")
		h.ServeHTTP(recorder(), r.WithContext(trace.NewContext(r.Context(), &rec)))
		require.Same(t, &rec, seen)
		require.Equal(t, trace.Miss, rec.Cache.Status)
		require.Equal(t, "GET", rec.Method)
		require.Equal(t, start, rec.Start)
		require.Equal(t, 200, rec.StatusCode)
		require.Equal(t, 200, rec.ForwardStatus)
		require.True(t, rec.Cache.Stored)
		require.EqualValues(t, 4, rec.BytesSent)
	})
}

// The time that a request takes is in its record.
func TestRecordHasTheDuration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) { time.Sleep(3 * time.Second) }})
		r := s.get("/")
		require.Equal(t, 3*time.Second, r.record.Duration)
		r = s.do("POST", "/")
		require.Equal(t, 3*time.Second, r.record.Duration)
	})
}

// One record doesn't show in the next one's, though their memory is reused.
func TestRecordsDoNotMix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{Key: cachekey.Options{Query: cachekey.Exclude("u")}}}, public("page"), fails(errors.New("x")))
		r := s.get("/?u=1")
		require.Equal(t, []string{"query u"}, r.record.Cache.Dropped)
		r = s.get("/other")
		require.Empty(t, r.record.Cache.Dropped)
		require.False(t, r.record.Cache.Stored)
		require.Zero(t, r.record.ForwardStatus)
		r = s.get("/")
		r.is(t, hit("page", 60, 0))
	})
}
