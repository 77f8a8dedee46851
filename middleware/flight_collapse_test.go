package middleware

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestThousandRequestsMakeOneFetchAndReadItAsItArrives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		head, rest := testnet.NewGate(), testnet.NewGate()
		script := shareable(testnet.Chunk{Data: "first "}, testnet.Chunk{Gate: rest, Data: "last"})
		script.Gate = head
		origin := originOf(script)
		r := newRig(t, Options{}, origin)
		calls := r.many(1000, "/a")
		synctest.Wait()
		require.Equal(t, 1, origin.Total())
		head.Open()
		synctest.Wait()
		for _, c := range calls {
			status, body := c.sofar()
			require.Equal(t, "200 first ", fmt.Sprint(status, " ", body))
		}
		rest.Open()
		words := map[string]int{}
		for _, c := range calls {
			words[c.whole(t, 200, "first last")]++
		}
		require.Equal(t, map[string]int{"MISS": 1, "COLLAPSED": 999}, words)
		require.Equal(t, "HIT", r.get("/a", 200, "first last"))
		require.Equal(t, 1, origin.Total())
	})
}

func TestDifferentKeysDontWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		slow := shareable(testnet.Chunk{Data: "slow"})
		slow.Gate = gate
		origin := originOf(shareable(testnet.Chunk{Data: "fast"}))
		origin.Handle("/slow", slow)
		r := newRig(t, Options{}, origin)
		c := r.lead("/slow")
		require.Equal(t, "MISS", r.get("/fast", 200, "fast"))
		gate.Open()
		c.whole(t, 200, "slow")
	})
}

func TestLeaderMayLeave(t *testing.T) {
	for _, midBody := range []bool{false, true} {
		t.Run(fmt.Sprintf("mid-body %v", midBody), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				head, rest := testnet.NewGate(), testnet.NewGate()
				script := shareable(testnet.Chunk{Data: "first "}, testnet.Chunk{Gate: rest, Data: "last"})
				script.Gate = head
				origin := originOf(script)
				r := newRig(t, Options{}, origin)
				leader := r.lead("/a")
				others := r.many(5, "/a")
				synctest.Wait()
				if midBody {
					head.Open()
					synctest.Wait()
				}
				leader.leave()
				head.Open()
				synctest.Wait()
				rest.Open()
				for _, c := range others {
					require.Equal(t, "COLLAPSED", c.whole(t, 200, "first last"))
				}
				require.Equal(t, "HIT", r.get("/a", 200, "first last"))
				require.Equal(t, 1, origin.Total())
			})
		})
	}
}

func TestFetchThatNobodyWaitsForGoesOnIfItIsStorable(t *testing.T) {
	for _, midBody := range []bool{false, true} {
		t.Run(fmt.Sprintf("mid-body %v", midBody), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				head, rest := testnet.NewGate(), testnet.NewGate()
				script := shareable(testnet.Chunk{Data: "first "}, testnet.Chunk{Gate: rest, Data: "last"})
				script.Gate = head
				origin := originOf(script)
				r := newRig(t, Options{}, origin)
				leader := r.lead("/a")
				other := r.lead("/a")
				if midBody {
					head.Open()
					synctest.Wait()
				}
				leader.leave()
				other.leave()
				require.Equal(t, 1, origin.InFlight(), "the origin goes on")
				head.Open()
				rest.Open()
				synctest.Wait()
				require.Equal(t, "HIT", r.get("/a", 200, "first last"))
				require.Equal(t, 1, origin.Total())
			})
		})
	}
}

func TestFetchThatNobodyWaitsForIsCancelledOnceItIsKnownAsUnstorable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		head, rest := testnet.NewGate(), testnet.NewGate()
		origin := originOf(&testnet.Script{
			Gate: head, Header: testnet.Header("Cache-Control", "private"), FlushHead: true,
			Body: []testnet.Chunk{{Data: "first "}, {Gate: rest, Data: "last"}},
		})
		r := newRig(t, Options{}, origin)

		before := r.lead("/a")
		before.leave()
		require.Equal(t, 1, origin.InFlight(), "before the head it goes on")
		head.Open()
		synctest.Wait()
		require.Zero(t, origin.InFlight(), "its context ended at the head")

		during := r.lead("/b")
		status, body := during.sofar()
		require.Equal(t, "200 first ", fmt.Sprint(status, " ", body))
		during.leave()
		require.Zero(t, origin.InFlight(), "its context ended when the only reader left")
	})
}

func TestLateComerOfLongBodyJoinsOnlyWhileItIsFresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		rest := testnet.NewGate()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			no := n.Add(1)
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Cache-Control", "public, max-age=10")
			fmt.Fprintf(w, "%d first ", no)
			_ = rest.Wait(req.Context())
			fmt.Fprint(w, "last")
		}))
		first := r.lead("/a")
		time.Sleep(9 * time.Second)
		second := r.lead("/a")
		time.Sleep(2 * time.Second)
		third := r.lead("/a")
		rest.Open()
		require.Equal(t, "MISS", first.whole(t, 200, "1 first last"))
		require.Equal(t, "COLLAPSED", second.whole(t, 200, "1 first last"))
		require.Equal(t, "9", second.header.Get("Age"))
		require.Equal(t, "MISS", third.whole(t, 200, "2 first last"))
	})
}

// A body larger than what is kept has lost its beginning when somebody comes
// late: it's not for them.
func TestLateComerOfWindowedBodyGetsAllOfIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		rest := testnet.NewGate()
		big := strings.Repeat("0123456789abcdef", 4<<20/16)
		o := Options{}
		o.Store.MaxMemoryObjectBytes = 1 << 20
		r := newRig(t, o, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			n.Add(1)
			goodFor60(w.Header())
			_, _ = w.Write([]byte(big))
			_ = rest.Wait(req.Context())
			_, _ = w.Write([]byte("end"))
		}))
		first := r.lead("/a")
		second := r.lead("/a")
		rest.Open()
		first.whole(t, 200, big+"end")
		require.Equal(t, "MISS", second.whole(t, 200, big+"end"))
		require.EqualValues(t, 2, n.Load())
	})
}

func TestRangeFarIntoBodyOfUnknownLengthDoesntStopIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		piece := strings.Repeat("x", 1<<20)
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			goodFor60(w.Header())
			w.(http.Flusher).Flush()
			for range 24 {
				_, _ = w.Write([]byte(piece))
			}
		}))
		c := r.start("/a", "Range", fmt.Sprintf("bytes=0-%d", 20<<20))
		<-c.done
		require.NoError(t, c.err)
		require.Equal(t, 200, c.status, "the whole answers as well")
		require.Equal(t, 24<<20, c.body.Len())
	})
}

func TestRangeOfArrivingBodyIsServedAsSoonAsItIsThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rest := testnet.NewGate()
		origin := originOf(shareable(testnet.Chunk{Data: "0123456789"}, testnet.Chunk{Gate: rest, Data: "abcdef"}))
		r := newRig(t, Options{}, origin)
		whole := r.lead("/a")
		part := r.start("/a", "Range", "bytes=2-5")
		part.whole(t, 206, "2345")
		require.Equal(t, "bytes 2-5/*", part.header.Get("Content-Range"))
		open := r.lead("/a", "Range", "bytes=12-")
		rest.Open()
		whole.whole(t, 200, "0123456789abcdef")
		open.whole(t, 200, "0123456789abcdef")
	})
}

func TestVaryingWaitersGetTheirOwnVariant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		gate := testnet.NewGate()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			n.Add(1)
			_ = gate.Wait(req.Context())
			goodFor60(w.Header())
			w.Header().Set("Vary", "X-Lang")
			fmt.Fprint(w, "in ", req.Header.Get("X-Lang"))
		}))
		de := r.lead("/a", "X-Lang", "de")
		moreDe, en, fr := r.many(10, "/a", "X-Lang", "de"), r.many(10, "/a", "X-Lang", "en"), r.many(10, "/a", "X-Lang", "fr")
		synctest.Wait()
		require.EqualValues(t, 1, n.Load())
		gate.Open()
		require.Equal(t, "MISS", de.whole(t, 200, "in de"))
		for i := range 10 {
			require.Equal(t, "COLLAPSED", moreDe[i].whole(t, 200, "in de"))
			en[i].whole(t, 200, "in en")
			fr[i].whole(t, 200, "in fr")
		}
		require.EqualValues(t, 3, n.Load(), "each variant is fetched once")
	})
}

func TestKnownVariantsDontWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gates := map[string]*testnet.Gate{"de": testnet.NewGate(), "en": testnet.NewGate(), "fr": testnet.NewGate()}
		gates["de"].Open()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_ = gates[req.Header.Get("X-Lang")].Wait(req.Context())
			goodFor60(w.Header())
			w.Header().Set("Vary", "X-Lang")
			fmt.Fprint(w, "in ", req.Header.Get("X-Lang"))
		}))
		r.get("/a", 200, "in de", "X-Lang", "de") // teaches what it varies by
		en := r.lead("/a", "X-Lang", "en")
		fr := r.lead("/a", "X-Lang", "fr")
		gates["fr"].Open()
		require.Equal(t, "MISS", fr.whole(t, 200, "in fr"))
		gates["en"].Open()
		require.Equal(t, "MISS", en.whole(t, 200, "in en"))
	})
}

func TestPurgeDuringFetchIsNotUndoneByIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var version atomic.Int32
		rest := testnet.NewGate()
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodPost {
				version.Add(1)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			v := version.Load()
			goodFor60(w.Header())
			fmt.Fprintf(w, "version %d", v)
			w.(http.Flusher).Flush()
			if v == 0 {
				_ = rest.Wait(req.Context())
			}
		}))
		leader, waiter := r.lead("/a"), r.lead("/a")
		resp, err := testnet.Do(r.client, "POST", r.url+"/a")
		require.NoError(t, err)
		require.Equal(t, 204, resp.Status)
		after := r.start("/a")
		require.Equal(t, "MISS", after.whole(t, 200, "version 1"), "nobody joins a fetch from before")
		rest.Open()
		leader.whole(t, 200, "version 0")
		waiter.whole(t, 200, "version 0")
		require.Equal(t, "HIT", r.get("/a", 200, "version 1"))
	})
}
