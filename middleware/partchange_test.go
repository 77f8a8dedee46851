package middleware

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// A part of another representation takes the place of those kept.
func TestOtherRepresentationReplacesParts(t *testing.T) {
	for name, next := range map[string]*testnet.Script{
		"tag":    piece("cd", 2, 10, `"v2"`),
		"length": piece("cd", 2, 11, `"v1"`),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`), next)
				s.get("/", "Range", "bytes=0-1")
				r := s.get("/", "Range", "bytes=2-3")
				r.is(t, passedPart("cd", true))
				require.Equal(t, spans{{2, 4}}, s.partsOf("/"))
				r = s.get("/", "Range", "bytes=2-3")
				r.isRange(t, hitPart("cd", 60, 0), next.Header.Get("Content-Range"))
			})
		})
	}
}

// An answer that isn't kept, but shows that the representation is another one by
// now, makes an end of the parts of the old one; one that doesn't show it leaves
// them.
func TestAnswerOutdatesParts(t *testing.T) {
	for _, c := range []struct {
		name string
		next *testnet.Script
		ask  string // of the range
		gone bool
	}{
		{"another part that isn't storable", piece("23", 2, 10, `"v2"`, "Set-Cookie", "a=b"), "bytes=2-3", true},
		{"the same that isn't storable", piece("23", 2, 10, `"v1"`, "Set-Cookie", "a=b"), "bytes=2-3", false},
		{"another whole for a range", testnet.Text(200, "new", "Etag", `"v2"`), "bytes=2-3", true},
		{"the same whole for a range", testnet.Text(200, "new", "Etag", `"v1"`), "bytes=2-3", false},
		{"not there", testnet.Text(404, ""), "bytes=2-3", true},
		{"an error", testnet.Text(503, ""), "bytes=2-3", false},
		{"unsatisfiable", testnet.Text(416, ""), "bytes=2-3", false},
		{"unsatisfiable of the same length", testnet.Text(416, "", "Content-Range", "bytes */10"), "bytes=12-13", false},
		{"unsatisfiable of another length", testnet.Text(416, "", "Content-Range", "bytes */3"), "bytes=4-5", true},
		{"another length that isn't storable", piece("23", 2, 11, `"v1"`, "Set-Cookie", "a=b"), "bytes=2-3", true},
		{"not modified", testnet.Text(304, "", "Etag", `W/"v1"`), "bytes=2-3", false},
		{"not modified, without a tag", testnet.Text(304, ""), "bytes=2-3", false},
		{"not modified, of another tag", testnet.Text(304, "", "Etag", `"v2"`), "bytes=2-3", true},
		{"the same head", testnet.Text(200, "", "Etag", `"v1"`), "HEAD", false},
		{"another head", testnet.Text(200, "", "Etag", `"v2"`), "HEAD", true},
		{"another head with a cookie", testnet.Text(200, "", "Etag", `"v2"`, "Set-Cookie", "a=b"), "HEAD", true},
		{"a head of another length", testnet.Text(200, "", "Etag", `"v1"`, "Content-Length", "9"), "HEAD", true},
		{"a head that is not there", testnet.Text(410, ""), "HEAD", true},
		{"a head with an error", testnet.Text(503, ""), "HEAD", false},
		{"not there, with the tag", testnet.Text(404, "", "Etag", `"v1"`), "bytes=2-3", true},
		{"not there for all", testnet.Text(404, ""), "", true},
		{"an error for all", testnet.Text(500, ""), "", false},
		{"another whole", text("new", "no-store", "Etag", `"v2"`), "", true},
		{"another stored", public("new", "Etag", `"v2"`), "", true},
		{"the same, stored", public("0123456789", "Etag", `"v1"`), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`), c.next)
				s.get("/", "Range", "bytes=0-1")
				after(time.Second)
				switch c.ask {
				case "":
					s.get("/")
				case "HEAD":
					s.do("HEAD", "/")
				default:
					s.get("/", "Range", c.ask, "If-None-Match", `"v0"`)
				}
				s.asked(2)
				require.Equal(t, c.gone, s.partsOf("/") == nil)
			})
		})
	}
}

// Whatever removes a whole response removes parts, also while one is on its way.
func TestPurgedParts(t *testing.T) {
	for name, purgeIt := range map[string]func(s *site){
		"URL":      func(s *site) { s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/"}) },
		"tag":      func(s *site) { s.purge(purge.Selector{Kind: purge.Tag, Tag: "t"}) },
		"softly":   func(s *site) { s.purge(purge.Selector{Kind: purge.Tag, Tag: "t", Soft: true}) },
		"POST":     func(s *site) { s.do("POST", "/", "Body", "x") },
		"Location": func(s *site) { s.do("POST", "/other", "Body", "x") },
	} {
		for _, underway := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					o := tagged()
					o.Default.ForwardRange = true
					gate := closedUntilEnd(t)
					second := piece("23", 2, 10, `"v1"`, "Surrogate-Key", "t")
					second.Gate = gate
					s := newSite(t, o)
					s.origin.Handle("/", piece("01", 0, 10, `"v1"`, "Surrogate-Key", "t"), second)
					s.origin.Handle("/other", testnet.Text(201, "", "Location", "/"))
					s.get("/", "Range", "bytes=0-1")
					require.Equal(t, spans{{0, 2}}, s.partsOf("/"))
					done := make(chan string, 1)
					if underway {
						go func() {
							w := httptest.NewRecorder()
							s.h.ServeHTTP(w, request("GET", "/", "Range", "bytes=2-3"))
							done <- w.Body.String()
						}()
						synctest.Wait()
					}
					if name == "POST" {
						s.origin.Handle("/", testnet.Text(204, ""))
					}
					purgeIt(s)
					require.Nil(t, s.partsOf("/"))
					if underway {
						gate.Open()
						require.Equal(t, "23", <-done)
						require.Nil(t, s.partsOf("/"), "asked for before the purge")
					}
					s.origin.Handle("/", piece("ab", 0, 10, `"v1"`))
					r := s.get("/", "Range", "bytes=0-1")
					r.is(t, passedPart("ab", true))
					require.Equal(t, spans{{0, 2}}, s.partsOf("/"))
				})
			})
		}
	}
}

// An older answer that comes late adds its bytes, but its fields don't count; of
// another representation, or from before a purge, it's dropped.
func TestLatePart(t *testing.T) {
	for _, c := range []struct {
		etag   string
		purged bool
		have   spans
	}{
		{`"v1"`, false, spans{{0, 3}}}, {`"v0"`, false, spans{{1, 3}}}, {`"v1"`, true, spans{{1, 3}}},
	} {
		bubble(t, func(t *testing.T) {
			gate := closedUntilEnd(t)
			late := piece("0a", 0, 10, c.etag, "X-Which", "late")
			late.Gate = gate
			s := newSite(t, forwarding(), late, piece("12", 1, 10, `"v1"`, "X-Which", "newer"))
			done := make(chan struct{})
			go func() {
				s.h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "Range", "bytes=0-1"))
				close(done)
			}()
			synctest.Wait()
			after(time.Second)
			if c.purged {
				s.purge(purge.Selector{Kind: purge.Everything})
			}
			s.get("/", "Range", "bytes=1-2")
			gate.Open()
			<-done
			require.Equal(t, c.have, s.partsOf("/"))
			first := c.have[0].start
			r := s.get("/", "Range", fmt.Sprintf("bytes=%d-2", first))
			r.isRange(t, hitPart("012"[first:], 60, 0), fmt.Sprintf("bytes %d-2/10", first))
			require.Equal(t, "newer", r.header.Get("X-Which"))
			s.asked(2)
		})
	}
}

// Bytes that came with a tag are purged by it, whatever those beside them came with,
// whichever of them came first.
func TestTagsOfPartsAreUnited(t *testing.T) {
	for name, c := range map[string]struct {
		first, second []string
		late          bool
	}{
		"others":   {[]string{"Surrogate-Key", "a"}, []string{"Surrogate-Key", "b"}, false},
		"unstored": {[]string{"Surrogate-Key", "a", "Cache-Control", `no-cache="surrogate-key"`}, nil, false},
		"the same": {[]string{"Surrogate-Key", "a"}, []string{"Surrogate-Key", "a"}, false},
		"late":     {[]string{"Surrogate-Key", "a"}, []string{"Surrogate-Key", "b"}, true},
	} {
		for _, tag := range []string{"a", "b"} {
			t.Run(name+" "+tag, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					o := tagged()
					o.Default.ForwardRange = true
					first, second := piece("01234", 0, 12, `"v1"`, c.first...), piece("56789", 5, 12, `"v1"`, c.second...)
					s := newSite(t, o, first, second)
					if c.late {
						gate := closedUntilEnd(t)
						first.Gate = gate
						done := make(chan struct{})
						go func() {
							defer close(done)
							s.h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "Range", "bytes=0-4"))
						}()
						synctest.Wait()
						after(time.Second)
						s.get("/", "Range", "bytes=5-9")
						gate.Open()
						<-done
					} else {
						s.get("/", "Range", "bytes=0-4")
						s.get("/", "Range", "bytes=5-9")
					}
					require.Equal(t, spans{{0, 10}}, s.partsOf("/"))
					s.purge(purge.Selector{Kind: purge.Tag, Tag: tag})
					has := tag == "a" || len(c.second) > 0 && c.second[1] == "b"
					require.Equal(t, has, s.partsOf("/") == nil)
				})
			})
		}
	}
}

// A part is about to join others, which meanwhile turn out to be of an older
// representation, or are dropped: they don't come back with it.
func TestPartsThatWereReplacedDoNotComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *site)
		have      spans
	}{
		"replaced": {func(s *site) { s.answer(piece("vvv", 0, 10, `"v2"`)); s.get("/", "Range", "bytes=0-2") }, spans{{0, 3}}},
		"gone":     {func(s *site) { s.answer(testnet.Text(404, "")); s.get("/", "Range", "bytes=0-2") }, nil},
		"more":     {func(s *site) { s.answer(piece("89", 8, 10, `"v1"`)); s.get("/", "Range", "bytes=8-9") }, spans{{0, 2}, {4, 6}, {8, 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`))
				s.get("/", "Range", "bytes=0-1")
				x := begin(s.h.(*handler), httptest.NewRecorder(), request("GET", "/", "Range", "bytes=4-5"))
				defer x.end()
				require.Empty(t, x.classify())
				require.Empty(t, x.identify())
				key, in, ok := x.countsAsFetch(whyRange, x.r)
				require.True(t, ok)
				x.passed = x.asFetch(key, &in, x.r, time.Now())
				defer x.passed.flight.Finish(nil)
				p := x.capture(206, piece("45", 4, 10, `"v1"`).Header).(*partCapture)
				p.add([]byte("45"), nil)
				old, had := s.mw.parts(x.key)
				p.part = newRun(4, []byte("45"))
				stolen := p.combined(old, had)
				after(time.Second)
				c.meanwhile(s)
				require.False(t, p.f.keepParts(stolen, old))
				if name == "gone" {
					return // what it would do then depends on when it looks
				}
				p.store(x, x.r)
				require.Equal(t, c.have, s.partsOf("/"))
			})
		})
	}
}

// The same entity tag for two codings: their bytes don't mix.
func TestPartsOfOtherCodingsDoNotMix(t *testing.T) {
	coded := []string{"Content-Encoding", "gzip"}
	for _, c := range [][2][]string{{coded, nil}, {nil, coded}, {coded, {"Content-Encoding", "br"}}} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`, c[0]...), piece("23", 2, 10, `"v1"`, c[1]...))
			s.get("/", "Range", "bytes=0-1")
			s.get("/", "Range", "bytes=2-3")
			require.Equal(t, spans{{2, 4}}, s.partsOf("/"))
		})
	}
}

// The answer to If-Range may leave out what its client has: it joins parts whose
// fields are known, and isn't kept by itself.
func TestPartWithoutDescription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		short := testnet.Text(206, "23", "Content-Range", "bytes 2-3/10", "Etag", `"v1"`, "Cache-Control", "public, max-age=60")
		s := newSite(t, forwarding(), short, piece("01", 0, 10, `"v1"`, "Content-Encoding", "gzip"), short)
		s.get("/", "Range", "bytes=2-3", "If-Range", `"v1"`)
		require.Nil(t, s.partsOf("/"))
		s.get("/", "Range", "bytes=0-1")
		s.get("/", "Range", "bytes=2-3", "If-Range", `"v1"`)
		require.Equal(t, spans{{0, 4}}, s.partsOf("/"))
		r := s.get("/", "Range", "bytes=2-3")
		require.Equal(t, "gzip", r.header.Get("Content-Encoding"))
	})
}

// A digest of one message's content isn't sent with other content.
func TestContentDigestStaysWithItsContent(t *testing.T) {
	digests := []string{"Content-Digest", "sha-256=:x:", "Content-Md5", "x", "Repr-Digest", "sha-256=:y:"}
	has := func(t *testing.T, r reply, content bool) {
		t.Helper()
		require.Equal(t, [3]bool{content, content, true}, [3]bool{
			r.header.Get("Content-Digest") != "", r.header.Get("Content-Md5") != "", r.header.Get("Repr-Digest") != "",
		})
	}
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), piece("01234", 0, 10, `"v1"`, digests...), piece("56789", 5, 10, `"v1"`, digests...))
		r := s.get("/", "Range", "bytes=0-4")
		has(t, r, true)
		r = s.get("/", "Range", "bytes=1-2")
		has(t, r, false)
		s.get("/", "Range", "bytes=5-9")
		r = s.get("/")
		r.is(t, hit(digits, 60, 0))
		has(t, r, false)
	})
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public(digits, append(digests, "Etag", `"v1"`)...))
		r := s.get("/", "Range", "bytes=1-2")
		has(t, r, false)
		r = s.get("/")
		has(t, r, true)
		for _, header := range [][2]string{{"Range", "bytes=1-2"}, {"Range", "bytes=1-2,5-6"}, {"If-None-Match", `"v1"`}} {
			r = s.get("/", header[0], header[1])
			require.NotEqual(t, 200, r.status)
			has(t, r, false)
		}
		r = s.get("/", "Range", "bytes=99-")
		require.Equal(t, 416, r.status)
		for i := 0; i < len(digests); i += 2 {
			require.NotContains(t, r.header, digests[i])
		}
		s.asked(1)
	})
	bubble(t, func(t *testing.T) { // of the empty content of a 304
		s := newSite(t, Options{}, public("page", append(digests, "Etag", `"v1"`)...), testnet.Text(304, "", "Etag", `"v1"`, "Content-Digest", "of nothing"))
		s.get("/")
		after(61 * time.Second)
		r := s.get("/")
		require.Equal(t, "REVALIDATED", r.header.Get("Weir-Cache-Status"))
		has(t, r, true)
		require.Equal(t, "sha-256=:x:", r.header.Get("Content-Digest"))
	})
}

// The whole that is stored goes first, and parts asked for before it came aren't
// kept beside it.
func TestWholeGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := closedUntilEnd(t)
		late := piece("ab", 0, 10, `"v0"`)
		late.Gate = gate
		s := newSite(t, forwarding(), late, public(digits, "Etag", `"v1"`))
		done := make(chan struct{})
		go func() {
			s.h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "Range", "bytes=0-1"))
			close(done)
		}()
		synctest.Wait()
		s.get("/")
		gate.Open()
		<-done
		require.Nil(t, s.partsOf("/"))
		r := s.get("/", "Range", "bytes=0-1")
		w := hit("01", 60, 0)
		w.status = 206
		r.is(t, w)
		s.asked(2)
	})
}

// Somebody asks for every second byte: the list of them stays short, longer parts
// take the place of shorter ones, and what is served is right.
func TestManySmallParts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := strings.Repeat(digits, 1000)
		s := newSite(t, forwarding(), file(body, `"v1"`))
		for i := 0; i < len(body); i += 2 {
			s.get("/", "Range", fmt.Sprintf("bytes=%d-%d", i, i))
		}
		require.Len(t, s.partsOf("/"), maxSpans)
		r := s.get("/", "Range", "bytes=5001-5008")
		r.isRange(t, passedPart("12345678", true), "bytes 5001-5008/10000")
		require.Len(t, s.partsOf("/"), maxSpans)
		r = s.get("/", "Range", "bytes=5002-5003")
		r.isRange(t, hitPart("23", 60, 0), "bytes 5002-5003/10000")
		st := s.mw.Stats().Memory
		require.EqualValues(t, 1, st.Objects)
		require.Less(t, st.Bytes, int64(8<<10), "what came is what takes room")
	})
}

// Many clients ask for parts of one resource at random, which changes now and
// then, and is purged: whatever is served from parts is what the resource has, and
// what is kept is what a model without a bound would keep.
func TestRandomParts(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			size := 1 + rnd.IntN(200)
			version, body := 0, ""
			change := func() {
				version++
				b := make([]byte, size)
				for i := range b {
					b[i] = byte('a' + rnd.IntN(26))
				}
				body = string(b)
			}
			change()
			s := newSite(t, forwarding())
			s.origin.Handle(testnet.AnyPath, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
				file(body, fmt.Sprintf(`"%d"`, version)).Do(w, r)
			}})
			known := make([]bool, size)
			for range 60 {
				after(time.Second)
				if rnd.IntN(15) == 0 {
					s.purge(purge.Selector{Kind: purge.Everything})
					clear(known)
					if rnd.IntN(2) == 0 {
						change()
					}
				}
				a := rnd.IntN(size)
				b := a + rnd.IntN(min(size-a, 1+size/4))
				ask := [...]string{fmt.Sprintf("bytes=%d-%d", a, b), fmt.Sprintf("bytes=%d-", a), fmt.Sprintf("bytes=-%d", size-a)}[rnd.IntN(10)%3]
				asked, _ := rfc9110.ParseRange([]string{ask})
				places, _ := asked.Resolve(int64(size))
				p := spanOf(places[0])
				served := true
				for _, k := range known[p.start:p.end] {
					served = served && k
				}
				r := s.get("/", "Range", ask)
				require.Equal(t, 206, r.status)
				require.Equal(t, body[p.start:p.end], r.body, "seed %d, %s", seed, ask)
				require.Equal(t, places[0].ContentRange(int64(size)), r.header.Get("Content-Range"))
				require.Equal(t, served, r.header.Get("Weir-Cache-Status") == "HIT", "seed %d, %s", seed, ask)
				for i := p.start; i < p.end; i++ {
					known[i] = true
				}
			}
		})
	}
}

// With a disk, parts stay in memory: nothing of them is written, and what is found
// after a restart isn't taken for the whole.
func TestPartsStayInMemory(t *testing.T) {
	dir := t.TempDir()
	o := forwarding()
	o.Store, o.Purge = store.Options{Disk: openDisk(t, dir+"/disk")}, journalIn(dir)
	s := newSite(t, o)
	s.origin.Handle(testnet.AnyPath, file(digits, `"v1"`))
	for _, ask := range []string{"bytes=0-3", "bytes=2-5"} {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, request("GET", "/", "Range", ask))
		require.Equal(t, 206, w.Code)
	}
	require.Equal(t, spans{{0, 6}}, s.partsOf("/"))
	st := s.mw.Stats()
	require.Equal(t, [3]int64{0, 0, 0}, [3]int64{st.Disk.Puts, st.DiskQueued, st.DiskDropped})
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, request("GET", "/", "Range", "bytes=6-"))
	require.Nil(t, s.partsOf("/"))
	require.Eventually(t, func() bool { return s.mw.Stats().Disk.Puts == 1 }, 5*time.Second, time.Millisecond, "the whole is written")
}
