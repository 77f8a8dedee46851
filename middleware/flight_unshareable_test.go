package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// numbered answers each request with its own number, after the gate.
func numbered(n *atomic.Int32, gate *testnet.Gate, status int, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		no := n.Add(1)
		_ = gate.Wait(req.Context())
		for name, values := range testnet.Header(header...) {
			w.Header()[name] = values
		}
		if w.Header().Get("Set-Cookie") != "" {
			w.Header().Set("Set-Cookie", fmt.Sprint("user=", no))
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "for ", no)
	})
}

func TestUnshareableResponseIsTheLeadersAlone(t *testing.T) {
	for name, header := range map[string][]string{
		"Set-Cookie":       {"Cache-Control", "public, max-age=60", "Set-Cookie", "x"},
		"private":          {"Cache-Control", "private, max-age=60"},
		"no-store":         {"Cache-Control", "no-store"},
		"no freshness":     {"Content-Type", "text/html"},
		"Vary: *":          {"Cache-Control", "public, max-age=60", "Vary", "*"},
		"private, in caps": {"Cache-Control", "Public, MAX-AGE=60", "cache-control", "PRIVATE"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var n atomic.Int32
				gate := testnet.NewGate()
				r := newRig(t, Options{}, numbered(&n, gate, 200, header...))
				leader := r.lead("/a")
				calls := append(r.many(20, "/a"), leader)
				synctest.Wait()
				require.EqualValues(t, 1, n.Load())
				gate.Open()
				bodies := map[string]bool{}
				for _, c := range calls {
					<-c.done
					require.NoError(t, c.err)
					require.Equal(t, "DYNAMIC", c.header.Get("Weir-Cache-Status"))
					bodies[c.body.String()] = true
					if cookie := c.header.Get("Set-Cookie"); name == "Set-Cookie" {
						require.Equal(t, "user="+strings.TrimPrefix(c.body.String(), "for "), cookie)
					}
				}
				require.Len(t, bodies, 21, "everyone has a response of their own")
				require.EqualValues(t, 21, n.Load())
			})
		})
	}
}

func TestUnshareableKeyIsRememberedForTenSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		open, shut := testnet.NewGate(), testnet.NewGate()
		open.Open()
		gate := open
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			numbered(&n, gate, 200, "Cache-Control", "private").ServeHTTP(w, req)
		}))
		r.get("/a", 200, "for 1")
		time.Sleep(9900 * time.Millisecond)
		gate = shut
		calls := r.many(3, "/a")
		synctest.Wait()
		require.EqualValues(t, 4, n.Load(), "nobody waits for another")
		shut.Open()
		for _, c := range calls {
			<-c.done
		}
		time.Sleep(10100 * time.Millisecond)
		gate = testnet.NewGate()
		calls = r.many(3, "/a")
		synctest.Wait()
		require.EqualValues(t, 5, n.Load(), "it's forgotten: one leads again")
		gate.Open()
		for _, c := range calls {
			<-c.done
		}
	})
}

func TestFailingKeyIsRememberedForOneSecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		gate := testnet.NewGate()
		gate.Open()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			numbered(&n, gate, 503).ServeHTTP(w, req)
		}))
		r.get("/a", 503, "for 1")
		time.Sleep(1100 * time.Millisecond)
		gate = testnet.NewGate()
		calls := r.many(3, "/a")
		synctest.Wait()
		require.EqualValues(t, 2, n.Load())
		gate.Open()
		for _, c := range calls {
			<-c.done
		}
	})
}

// The answer to somebody with cookies couldn't be shared: that says nothing
// about those without.
func TestCookiesUnshareableAnswerDoesntStopAnonymousCollapsing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		gate := testnet.NewGate()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			no := n.Add(1)
			_ = gate.Wait(req.Context())
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Cache-Control", "max-age=60")
			if c := req.Header.Get("Cookie"); c != "" {
				fmt.Fprint(w, "for ", c)
				return
			}
			fmt.Fprint(w, "anonymous ", no)
		}))
		leader := r.lead("/a", "Cookie", "user=7")
		calls := r.many(10, "/a")
		synctest.Wait()
		require.EqualValues(t, 1, n.Load())
		gate.Open()
		leader.whole(t, 200, "for user=7")
		for _, c := range calls {
			c.whole(t, 200, "anonymous 2")
		}
		require.EqualValues(t, 2, n.Load())
		r.get("/a", 200, "for user=8", "Cookie", "user=8")
	})
}

func TestInterimResponsesReachTheLeaderOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		script := shareable(testnet.Chunk{Data: "body"})
		script.Informational = []testnet.Head{{Status: 103, Header: testnet.Header("Link", "</a.css>; rel=preload")}}
		script.Gate = gate
		origin := originOf(script)
		r := newRig(t, Options{}, origin)
		ask := func() string {
			conn, err := dialRig(r)
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
			return readAll(conn)
		}
		answers := make(chan string, 2)
		for range 2 {
			go func() { answers <- ask() }()
			synctest.Wait()
		}
		gate.Open()
		interims := 0
		for range 2 {
			raw := <-answers
			interims += strings.Count(raw, "HTTP/1.1 103")
			_, final, _ := strings.Cut(raw, "HTTP/1.1 200")
			require.NotContains(t, final, "a.css")
			require.Contains(t, final, "body")
		}
		require.Equal(t, 1, interims)
		require.NotContains(t, ask(), "a.css")
		require.Equal(t, 1, origin.Total())
	})
}

func TestTrailersReachLeaderWaitersAndHits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rest := testnet.NewGate()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			goodFor60(w.Header())
			w.Header().Set("Trailer", "X-Sum")
			fmt.Fprint(w, "bo")
			_ = rest.Wait(req.Context())
			fmt.Fprint(w, "dy")
			w.Header().Set("X-Sum", "1")
			w.Header().Set(http.TrailerPrefix+"X-More", "2")
			w.Header().Set(http.TrailerPrefix+"Set-Cookie", "user=leader")
			w.Header().Set(http.TrailerPrefix+"Content-Length", "3")
		}))
		calls := []*call{r.lead("/a"), r.lead("/a")}
		rest.Open()
		synctest.Wait()
		for _, c := range append(calls, r.start("/a")) {
			c.whole(t, 200, "body")
			require.Equal(t, http.Header{"X-Sum": {"1"}, "X-More": {"2"}}, c.trailer)
		}
		require.Equal(t, "HIT", r.get("/a", 200, "body"))
	})
}

func TestOneRefreshForManyStaleHits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		gate := testnet.NewGate()
		gate.Open()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			numbered(&n, gate, 200, "Cache-Control", "max-age=1, stale-while-revalidate=60").ServeHTTP(w, req)
		}))
		r.get("/a", 200, "for 1")
		time.Sleep(2 * time.Second)
		gate = testnet.NewGate()
		for _, c := range r.many(100, "/a") {
			require.Equal(t, "STALE", c.whole(t, 200, "for 1"))
		}
		synctest.Wait()
		require.EqualValues(t, 2, n.Load())
		gate.Open()
		synctest.Wait()
		require.Equal(t, "HIT", r.get("/a", 200, "for 2"))
	})
}

// A refresh that comes to nothing, in whatever way, keeps the next one away for
// a while, counted from its end, and leaves the key usable.
func TestRefreshThatComesToNothingIsHeldBack(t *testing.T) {
	short := func(w http.ResponseWriter, control string) {
		w.Header().Set("Cache-Control", control)
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "short")
	}
	for name, fails := range map[string]http.HandlerFunc{
		"503":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"panic":      func(http.ResponseWriter, *http.Request) { panic("oh dear") },
		"abort":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"reported":   func(w http.ResponseWriter, r *http.Request) { ProxyErrorHandler(w, r, http.ErrServerClosed) },
		"short body": func(w http.ResponseWriter, _ *http.Request) { short(w, "max-age=1, stale-while-revalidate=600") },
		"cut body": func(w http.ResponseWriter, _ *http.Request) {
			short(w, "max-age=1, stale-while-revalidate=600")
			panic(http.ErrAbortHandler)
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=100")
			for range 100 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var n atomic.Int32
				r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					switch no := n.Add(1); no {
					case 1, 3:
						w.Header().Set("Content-Type", "text/plain")
						w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=600")
						fmt.Fprint(w, "good ", no)
					default:
						time.Sleep(4 * time.Second)
						fails(w, req)
					}
				}))
				r.get("/a", 200, "good 1")
				time.Sleep(2 * time.Second)
				for range 80 { // until 8 s: the attempt takes 4, and then it's held back for 5
					require.Equal(t, "STALE", r.get("/a", 200, "good 1"))
					time.Sleep(100 * time.Millisecond)
				}
				require.EqualValues(t, 2, n.Load())
				time.Sleep(2 * time.Second)
				r.get("/a", 200, "good 1")
				synctest.Wait()
				require.EqualValues(t, 3, n.Load())
				require.Equal(t, "HIT", r.get("/a", 200, "good 3"))
				require.Equal(t, name == "panic", strings.Contains(r.log(), "oh dear"))
			})
		})
	}
}

func TestCloseEndsBackgroundRefreshes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		mw, err := New(Options{})
		require.NoError(t, err)
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if n.Add(1) > 1 {
				<-req.Context().Done()
				return
			}
			w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
			fmt.Fprint(w, "body")
		}))
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/a", nil))
			return w
		}
		ask()
		time.Sleep(2 * time.Second)
		require.Equal(t, "STALE", ask().Header().Get("Weir-Cache-Status"))
		synctest.Wait()
		require.EqualValues(t, 2, n.Load())
		require.NoError(t, mw.Close(context.Background()))
	})
}
