package integration

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd is how many ask at once.
const crowd = 20

// A crowd that comes for a page that isn't there yet makes one request.
func TestNodeColdTogether(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		path := "/late/" + fmt.Sprint(len(args))
		var answers []<-chan answer
		for range crowd {
			answers = append(answers, ask(c, p.url+path))
		}
		a.await(path, 1)
		a.release(path)
		words := map[string]int{}
		for _, ch := range answers {
			r := await(t, ch)
			require.NoError(t, r.err)
			assert.Equal(t, "page 1\n", r.Body)
			words[r.Header.Get(statusField)]++
		}
		assert.Equal(t, 1, words["MISS"], "%v", words)
		assert.Equal(t, crowd-1, words["COLLAPSED"]+words["HIT"], "%v", words)
		assert.Equal(t, 1, a.seen(path).Count)
	})
}

// A crowd that comes for what turns out to be personal: each gets an own page
// and an own cookie, though all of them were waiting for the first.
func TestNodePersonalTogether(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for _, page := range []string{"visitor", "private"} {
		path := "/" + page + "/a"
		var answers []<-chan answer
		for range crowd {
			answers = append(answers, ask(c, p.url+path))
		}
		a.await(path, 1)
		bodies, cookies := map[string]bool{}, map[string]bool{}
		a.release(path)
		eventually(t, "all others ask for themselves", func() bool {
			a.release(path)
			return a.seen(path).Count == crowd && a.seen(path).Waiting == 0
		})
		for _, ch := range answers {
			r := await(t, ch)
			require.NoError(t, r.err)
			bodies[r.Body] = true
			if cookie := r.Header.Get("Set-Cookie"); cookie != "" {
				assert.Equal(t, "visitor="+r.Body[len("visitor "):len(r.Body)-1], cookie)
				cookies[cookie] = true
			}
		}
		assert.Len(t, bodies, crowd)
		if page == "visitor" {
			assert.Len(t, cookies, crowd)
		}
	}
}

// One after the other: nobody gets what was made for the one before.
func TestNodeCookiesStayWithTheirVisitor(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for n := range 3 {
		a.release("/visitor/b")
		r := do(t, c, "GET", p.url+"/visitor/b")
		assert.Equal(t, fmt.Sprintf("visitor=%d", n+1), r.Header.Get("Set-Cookie"))
		assert.Equal(t, "DYNAMIC", r.Header.Get(statusField))
	}
}

// A page that is still being made: everyone who comes meanwhile sees what there
// is of it at once.
func TestNodeSlowPageStreamsToAll(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		for _, page := range []string{"slow", "slowsized"} {
			path := fmt.Sprintf("/%s/%d", page, len(args))
			var streams []*stream
			for range 5 {
				s := open(t, c, p.url+path)
				assert.Equal(t, "first part, ", s.read(t, 12))
				streams = append(streams, s)
			}
			assert.Equal(t, 1, a.seen(path).Count)
			a.release(path)
			for _, s := range streams {
				assert.Equal(t, "second part\n", s.rest(t))
			}
			assert.Equal(t, "first part, second part\n", do(t, c, "GET", p.url+path).Body)
			assert.Equal(t, 1, a.seen(path).Count)
		}
	})
}

// A page for one client alone streams as well.
func TestNodeSlowPrivatePageStreams(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	s := open(t, c, p.url+"/slowprivate/a")
	assert.Equal(t, "first part, ", s.read(t, 12))
	a.release("/slowprivate/a")
	assert.Equal(t, "second part\n", s.rest(t))
}

// The one whose request went to the origin leaves in the middle; nobody else
// notices, and the page is stored.
func TestNodeLeaderLeaves(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	leader := open(t, c, p.url+"/slow/leader")
	assert.Equal(t, "MISS", leader.Header.Get(statusField))
	assert.Equal(t, "first part, ", leader.read(t, 12))
	other := open(t, c, p.url+"/slow/leader")
	assert.Equal(t, "COLLAPSED", other.Header.Get(statusField))
	leader.leave()
	a.release("/slow/leader")
	assert.Equal(t, "first part, second part\n", other.rest(t))
	assert.Equal(t, "HIT", do(t, c, "GET", p.url+"/slow/leader").Header.Get(statusField))
	assert.Equal(t, seen{Count: 1}, only(a.seen("/slow/leader")))
}

// The first one wants only a part and is done before the rest of the page has
// come.
func TestNodeLeaderWantsPart(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for _, page := range []string{"slow", "slowsized"} {
		path := "/" + page + "/part"
		r := do(t, c, "GET", p.url+path, "Range", "bytes=6-9")
		assert.Equal(t, 206, r.Status)
		assert.Equal(t, "part", r.Body)
		r = do(t, c, "GET", p.url+path, "Range", "bytes=0-4")
		assert.Equal(t, "first", r.Body)
		a.release(path)
		eventually(t, "the page is stored", func() bool {
			r := do(t, c, "GET", p.url+path)
			require.Equal(t, "first part, second part\n", r.Body)
			return r.Header.Get(statusField) == "HIT"
		})
		assert.Equal(t, seen{Count: 1}, only(a.seen(path)))
	}
}

// Clients that are answered before the page has come whole, over and over: with
// the race detector on, it sees what they still look at meanwhile.
func TestNodeManyDoneEarly(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for i := range 300 {
		header, code := []string{"Range", "bytes=0-0"}, 206
		if i%2 == 1 {
			header, code = []string{"If-None-Match", "*"}, 304
		}
		r := do(t, c, "GET", fmt.Sprintf("%s/page/%d", p.url, i), header...)
		require.Equal(t, code, r.Status)
	}
}

// It leaves before the head is there: those who wait get the page.
func TestNodeLeaderLeavesBeforeTheHead(t *testing.T) {
	a := startApp(t)
	p := startProxy(t, a.url)
	conn, _ := dial(t, p.addr, "GET /late/leader HTTP/1.1\r\nHost: "+p.addr+"\r\n\r\n")
	a.await("/late/leader", 1)
	others := ask(newClient(t), p.url+"/late/leader")
	require.NoError(t, conn.Close())
	a.release("/late/leader")
	r := await(t, others)
	require.NoError(t, r.err)
	assert.Equal(t, "page 1\n", r.Body)
	assert.Equal(t, 1, a.seen("/late/leader").Count)
}

// Everybody leaves a page that may be stored: it's finished and stored.
func TestNodeAllLeaveStorable(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	var streams []*stream
	for range 3 {
		s := open(t, c, p.url+"/slow/all")
		s.read(t, 12)
		streams = append(streams, s)
	}
	for _, s := range streams {
		s.leave()
	}
	a.release("/slow/all")
	eventually(t, "the page is stored", func() bool {
		return do(t, c, "GET", p.url+"/slow/all").Header.Get(statusField) == "HIT"
	})
	assert.Equal(t, seen{Count: 1}, only(a.seen("/slow/all")))
}

// only leaves the counts.
func only(s seen) seen { return seen{Count: s.Count, Cut: s.Cut} }

// Everybody leaves a body that can't be stored, without end: the origin's
// connection is closed. The same for one that might be stored until it's clear
// that it's too large.
func TestNodeAllLeaveEndless(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p := startProxy(t, a.url, args...)
		for _, path := range []string{"/endless/a", "/endless/storable"} {
			path += fmt.Sprint(len(args))
			var streams []*stream
			for range 3 {
				s := open(t, newClient(t), p.url+path)
				assert.Equal(t, http.StatusOK, s.StatusCode)
				s.read(t, 100<<10)
				streams = append(streams, s)
			}
			for _, s := range streams {
				s.leave()
			}
			eventually(t, "the origin's connections are closed: "+path, func() bool {
				s := a.seen(path)
				return s.Cut == s.Count
			})
		}
		// A client that leaves what may be stored early.
		s := open(t, newClient(t), p.url+"/endless/storable-early")
		s.read(t, 10)
		s.leave()
		eventually(t, "the origin's connection is closed", func() bool {
			s := a.seen("/endless/storable-early")
			return s.Cut == s.Count
		})
	})
}
