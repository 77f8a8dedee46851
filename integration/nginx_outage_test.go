package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nginx goes away: fresh files are served on, stale ones where nothing forbids
// it, and what isn't there is an error. It comes back: everything is as before.
func TestNginxOutage(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		for _, path := range []string{"/mid.bin", "/short/a.txt", "/must/a.txt", "/swr/a.txt", "/never/a.txt"} {
			require.Equal(t, 200, do(t, c, "GET", p.url+path).Status, path)
		}
		s.down()

		r := do(t, c, "GET", p.url+"/mid.bin")
		assert.Equal(t, "HIT", r.Header.Get(statusField))
		equalBytes(t, s.file("mid.bin"), r.Body, "mid.bin")
		r = do(t, c, "GET", p.url+"/a.txt")
		assert.Equal(t, 502, r.Status)
		assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
		assert.Equal(t, 502, do(t, c, "HEAD", p.url+"/a.txt").Status)
		assert.Equal(t, 502, do(t, c, "POST", p.url+"/a.txt").Status)
		assert.Equal(t, 504, do(t, c, "GET", p.url+"/a.txt", "Cache-Control", "only-if-cached").Status)

		eventually(t, "what must be validated is no longer served", func() bool {
			r := do(t, c, "GET", p.url+"/must/a.txt")
			if r.Status == 200 {
				require.Equal(t, "HIT", r.Header.Get(statusField))
				return false
			}
			assert.Contains(t, []int{502, 504}, r.Status)
			return true
		})
		eventually(t, "the lifetime of one second is over", func() bool {
			r := do(t, c, "GET", p.url+"/short/a.txt")
			require.Equal(t, 200, r.Status)
			require.Equal(t, "short\n", r.Body)
			return r.Header.Get(statusField) == "STALE-ERROR"
		})
		r = do(t, c, "GET", p.url+"/short/a.txt", "Range", "bytes=1-2")
		assert.Equal(t, 206, r.Status)
		assert.Equal(t, "ho", r.Body)
		eventually(t, "the other one's too", func() bool {
			r := do(t, c, "GET", p.url+"/swr/a.txt")
			require.Equal(t, 200, r.Status)
			return r.Header.Get(statusField) == "STALE"
		})
		// nginx sends Cache-Control: no-cache there, which forbids it.
		assert.Equal(t, 502, do(t, c, "GET", p.url+"/never/a.txt").Status)

		s.up()
		eventually(t, "the files are fresh again", func() bool {
			return do(t, c, "GET", p.url+"/must/a.txt").Header.Get(statusField) == "REVALIDATED"
		})
		r = do(t, c, "GET", p.url+"/short/a.txt")
		assert.Equal(t, "REVALIDATED", r.Header.Get(statusField))
		assert.Equal(t, 200, do(t, c, "GET", p.url+"/a.txt").Status)
	})
}

// A failed page must not be an answer without a decision: what the cache did is
// known, it looked for the response and had none.
func TestNginxOutageIsAMiss(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	s.down()
	r := do(t, c, "GET", p.url+"/a.txt")
	assert.Equal(t, 502, r.Status)
	assert.NotEqual(t, "UNDECIDED", r.Header.Get(statusField))
	assert.NotEmpty(t, r.Body)
}

// A monitor that asks with HEAD sees what visitors see: while the stale copy
// stands in for a page, its head does too.
func TestNginxOutageForHead(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	require.Equal(t, 200, do(t, c, "GET", p.url+"/short/a.txt").Status)
	s.down()
	eventually(t, "the lifetime of one second is over", func() bool {
		return do(t, c, "GET", p.url+"/short/a.txt").Header.Get(statusField) == "STALE-ERROR"
	})
	assert.Equal(t, 200, do(t, c, "HEAD", p.url+"/short/a.txt").Status)
}
