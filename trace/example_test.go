package trace_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weirhttp/weir/trace"
)

func ExampleStatus() {
	for _, s := range []trace.Status{trace.Hit, trace.Revalidated, trace.StaleError} {
		fmt.Println(s, s.ServedFromCache())
	}
	// Output:
	// HIT true
	// REVALIDATED false
	// STALE-ERROR true
}

// A logger outside of the cache puts a record into the request's context. The
// cache fills it, and the logger reads it when the handler has returned.
func ExampleNewContext() {
	cache := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rec := trace.FromContext(r.Context()); rec != nil {
			rec.Cache.Status = trace.Hit
			rec.Cache.Reason = "stored 3s ago, fresh for another 57s"
		}
	})
	logger := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := trace.Get()
		defer trace.Put(rec)
		cache.ServeHTTP(w, r.WithContext(trace.NewContext(r.Context(), rec)))
		fmt.Println(rec.Cache.Status, "because", rec.Cache.Reason)
	})
	logger.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	// Output: HIT because stored 3s ago, fresh for another 57s
}

func ExampleHook() {
	var slow []*trace.Record
	var hook trace.Hook = func(r *trace.Record) {
		if r.Duration > time.Second {
			slow = append(slow, r.Clone()) // r itself is reused after the call
		}
	}

	r := trace.Get()
	r.Duration, r.Cache.Route = 3*time.Second, "search"
	hook(r)
	trace.Put(r)

	fmt.Println(slow[0].Cache.Route, slow[0].Duration)
	// Output: search 3s
}

func ExampleFromContext() {
	fmt.Println(trace.FromContext(context.Background()) == nil)
	// Output: true
}

func ExampleAppendCacheStatus() {
	hit := trace.CacheStatus{Hit: true, HasTTL: true, TTL: 376}
	fmt.Println(string(trace.AppendCacheStatus(nil, "weir", &hit)))

	miss := trace.CacheStatus{Forward: trace.ForwardVaryMiss, ForwardStatus: 200, Stored: true, Key: `path:5:/page`}
	fmt.Println(string(trace.AppendCacheStatus(nil, "weir edge 1", &miss)))
	// Output:
	// weir;hit;ttl=376
	// "weir edge 1";fwd=vary-miss;fwd-status=200;stored;key="path:5:/page"
}

func ExampleRecord_CacheStatus() {
	r := &trace.Record{ForwardReason: trace.ForwardStale, ForwardStatus: 304}
	r.Cache = trace.Cache{Status: trace.Revalidated, TTL: time.Minute, Stored: true}
	s := r.CacheStatus()
	fmt.Println(string(trace.AppendCacheStatus(nil, "weir", &s)))
	// Output: weir;fwd=stale;fwd-status=304;ttl=60;stored
}

func ExampleHeaderValue() {
	fmt.Println(trace.HeaderValue("no match for \"/a\"\r\nSet-Cookie: x"))
	// Output: no match for "/a"%0D%0ASet-Cookie: x
}
