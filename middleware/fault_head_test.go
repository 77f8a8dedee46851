package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// panicOf calls h as a server would and returns what it panicked with.
func panicOf(h http.Handler, w http.ResponseWriter, r *http.Request) (value any) {
	defer func() { value = recover() }()
	h.ServeHTTP(w, r)
	return nil
}

func TestPanicBeforeHeadReachesTheLeadersServerAsItIs(t *testing.T) {
	type own struct{ n int }
	value := &own{1}
	for _, v := range []any{value, http.ErrAbortHandler, "text", errors.New("error")} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := prepareRig(t, Options{})
				h := r.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(200) // not sent yet
					panic(v)
				}))
				w := httptest.NewRecorder()
				require.True(t, panicOf(h, w, httptest.NewRequest("GET", "/a", nil)) == v)
				require.Empty(t, w.Body.String())
				require.True(t, panicOf(h, w, httptest.NewRequest("POST", "/a", nil)) == v, "and past the cache")
			})
		})
	}
}

// Whatever way the leader's fetch fails before its head, those who waited ask
// for themselves, and the key is usable afterwards.
func TestWaitersFetchForThemselvesWhenTheLeaderFails(t *testing.T) {
	for name, c := range map[string]struct {
		status int // the leader's; 0 is a cut connection
		fail   http.HandlerFunc
	}{
		"panic":  {0, func(http.ResponseWriter, *http.Request) { panic("oh dear") }},
		"abort":  {0, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"report": {502, func(w http.ResponseWriter, r *http.Request) { ProxyErrorHandler(w, r, errors.New("refused")) }},
		"report of a timeout": {504, func(w http.ResponseWriter, r *http.Request) {
			ProxyErrorHandler(w, r, os.ErrDeadlineExceeded)
		}},
		"timeout": {504, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"timeout, and it ignores that": {504, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Minute)
			goodFor60(w.Header())
			fmt.Fprint(w, "much too late")
		}},
		"timeout, and it panics then": {504, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}},
		"a broken status": {0, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) }},
		"a 304 that wasn't asked for": {502, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(304)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var n atomic.Int32
				gate := testnet.NewGate()
				r := newRig(t, Options{FetchTimeout: 10 * time.Second}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if n.Add(1) == 1 {
						_ = gate.Wait(req.Context())
						c.fail(w, req)
						return
					}
					goodFor60(w.Header())
					fmt.Fprint(w, "good")
				}))
				leader := r.lead("/a")
				waiters := r.many(10, "/a")
				synctest.Wait()
				gate.Open()
				for _, w := range waiters {
					w.whole(t, 200, "good")
				}
				<-leader.done
				require.Equal(t, c.status, leader.status)
				if c.status == 0 {
					require.Error(t, leader.err)
				}
				require.Equal(t, "HIT", r.get("/a", 200, "good"))
			})
		})
	}
}

func TestStaleStandsInForAllWhenTheOriginFails(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"503":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"abort":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"timeout": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"report":  func(w http.ResponseWriter, r *http.Request) { ProxyErrorHandler(w, r, errors.New("refused")) },
		"endless 503": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			for {
				if _, err := w.Write([]byte("no")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		},
		"503 and silence": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"deaf": func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var n atomic.Int32
				gate := testnet.NewGate()
				o := Options{FetchTimeout: 10 * time.Second}
				o.Default.StaleOnDisconnect = -1
				r := newRig(t, o, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if n.Add(1) > 1 {
						_ = gate.Wait(req.Context())
						fail(w, req)
						return
					}
					w.Header().Set("Content-Type", "text/plain")
					w.Header().Set("Cache-Control", "max-age=1, stale-if-error=60")
					fmt.Fprint(w, "good")
				}))
				r.get("/a", 200, "good")
				time.Sleep(2 * time.Second)
				calls := append(r.many(10, "/a"), r.lead("/a"))
				synctest.Wait()
				require.EqualValues(t, 2, n.Load())
				gate.Open()
				for _, c := range calls {
					require.Equal(t, "STALE-ERROR", c.whole(t, 200, "good"))
				}
				// What stood in then mustn't for ever, however long the handler hangs.
				time.Sleep(2 * time.Minute)
				if name != "deaf" {
					require.Zero(t, r.mw.flights.Flights(), "a body that nobody wants is given up")
				}
				c := r.start("/a")
				time.Sleep(20 * time.Second)
				if status, _ := c.sofar(); status != 0 || name == "503" {
					require.GreaterOrEqual(t, status, 502)
				}
				c.leave()
			})
		})
	}
}

// A 304 that fits nothing stored isn't an answer: all of it is asked for again,
// and there's a deadline for that too.
func TestMismatched304IsAskedAgain(t *testing.T) {
	for name, again := range map[string]struct {
		status int
		body   string
		do     http.HandlerFunc
	}{
		"answered": {200, "new", func(w http.ResponseWriter, _ *http.Request) {
			goodFor60(w.Header())
			fmt.Fprint(w, "new")
		}},
		"silence": {504, "Gateway Timeout\n", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"304":     {502, "Bad Gateway\n", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }},
	} {
		for _, flushed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, flushed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var n atomic.Int32
					r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						switch {
						case n.Add(1) == 1:
							w.Header().Set("Content-Type", "text/plain")
							w.Header().Set("Cache-Control", "max-age=1, must-revalidate")
							w.Header().Set("ETag", `"v1"`)
							fmt.Fprint(w, "old")
						case req.Header.Get("If-None-Match") != "":
							w.Header().Set("ETag", `"v2"`)
							w.WriteHeader(304)
							if flushed {
								w.(http.Flusher).Flush()
							}
						default:
							again.do(w, req)
						}
					}))
					r.get("/a", 200, "old")
					time.Sleep(2 * time.Second)
					r.get("/a", again.status, again.body)
					require.EqualValues(t, 3, n.Load())
				})
			})
		}
	}
}

func TestHandlerThatGivesUpWithItsContextHasSaidNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Options{FetchTimeout: time.Second}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			goodFor60(w.Header())
			<-req.Context().Done()
		}))
		r.get("/a", 504, "Gateway Timeout\n")
		require.Zero(t, r.mw.Stats().Memory.Objects)
	})
}

func TestWaiterFollowsItsOwnDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		script := shareable(testnet.Chunk{Data: "body"})
		script.Gate = gate
		r := prepareRig(t, Options{})
		cache := r.mw.Wrap(originOf(script))
		r.url = "http://example.com"
		r.client = testnet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("X-Hurry") != "" {
				ctx, cancel := context.WithTimeout(req.Context(), time.Second)
				defer cancel()
				req = req.WithContext(ctx)
			}
			cache.ServeHTTP(w, req)
		})).Client
		leader := r.lead("/a")
		start := time.Now()
		r.get("/a", 504, "Gateway Timeout\n", "X-Hurry", "1")
		require.Equal(t, time.Second, time.Since(start))
		gate.Open()
		leader.whole(t, 200, "body")
	})
}

func TestWaiterFetchesForItselfAfterWaitTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		gate := testnet.NewGate()
		r := newRig(t, Options{WaitTimeout: 5 * time.Second}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			no := n.Add(1)
			if no == 1 {
				_ = gate.Wait(req.Context())
			}
			goodFor60(w.Header())
			fmt.Fprint(w, "body ", no)
		}))
		leader := r.lead("/a")
		start := time.Now()
		r.get("/a", 200, "body 2")
		require.Equal(t, 5*time.Second, time.Since(start))
		gate.Open()
		leader.whole(t, 200, "body 1")
	})
}

// An origin that never answers is polled by clients that give up early; then it
// recovers.
func TestStuckOriginDoesntPoisonItsKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var well atomic.Bool
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !well.Load() {
				<-req.Context().Done()
				return
			}
			goodFor60(w.Header())
			fmt.Fprint(w, "well")
		}))
		for range 30 {
			c := r.lead("/a")
			time.Sleep(time.Second)
			c.leave()
			time.Sleep(9 * time.Second)
		}
		well.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, r.mw.flights.Flights())
		r.get("/a", 200, "well")
	})
}

// Real sockets, and httputil.ReverseProxy as it is in use: what its origin does
// wrong before the head.
func TestBrokenOriginBehindReverseProxy(t *testing.T) {
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"nothing":                    {"", 502},
		"half a status line":         {"HTTP/1.1 20", 502},
		"half a head":                {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Le", 502},
		"no HTTP":                    {"\x00\x01\x02\r\n\r\n", 502},
		"negative Content-Length":    {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: -5\r\n\r\nhello", 502},
		"two Content-Lengths":        {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 502},
		"Content-Length in words":    {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: five\r\n\r\nhello", 502},
		"short of its length":        {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 50\r\n\r\nhello", 0},
		"a chunk without its end":    {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 0},
		"a chunk of a broken size":   {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", 0},
		"length and chunks":          {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200},
		"more than its length":       {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello and more", 200},
		"a body until the end":       {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nhello", 200},
		"an unknown framing":         {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: gzip\r\n\r\nhello", 502},
		"a switch that nobody asked": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello", 502},
	} {
		t.Run(name, func(t *testing.T) {
			origin := testnet.RawServer(t, func(conn netConn, _ *http.Request) {
				_, _ = conn.Write([]byte(c.raw))
			})
			tr := &http.Transport{DisableCompression: true}
			t.Cleanup(tr.CloseIdleConnections)
			r := newRealRig(t, Options{}, &httputil.ReverseProxy{
				Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(mustURL(origin.URL)) },
				Transport: tr, FlushInterval: -1, ErrorHandler: ProxyErrorHandler, ErrorLog: silent(),
			})
			for range 3 {
				call := r.start("/a")
				switch c.status {
				case 0:
					call.broken(t)
				case 200:
					call.whole(t, 200, "hello")
				default:
					<-call.done
					require.NoError(t, call.err)
					require.Equal(t, c.status, call.status)
				}
			}
			if c.status != 200 {
				require.Zero(t, r.mw.Stats().Memory.Objects)
			}
		})
	}
}
