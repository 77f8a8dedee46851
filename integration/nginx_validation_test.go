package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// conditionTest is what a client's own condition makes of a file that it may
// have.
type conditionTest struct {
	what   string
	header []string
	code   int
}

func conditionTests(etag, modified string) []conditionTest {
	const (
		before = "Mon, 01 Jan 2024 00:00:00 GMT"
		after  = "Fri, 01 Jan 2100 00:00:00 GMT"
	)
	return []conditionTest{
		{"same tag", []string{"If-None-Match", etag}, 304},
		{"same tag, weakly", []string{"If-None-Match", "W/" + etag}, 304},
		{"among others", []string{"If-None-Match", `"a", ` + etag + `, "b"`}, 304},
		{"in the second line", []string{"If-None-Match", `"a"`, "If-None-Match", etag}, 304},
		{"any", []string{"If-None-Match", "*"}, 304},
		{"another tag", []string{"If-None-Match", `"other"`}, 200},
		{"same date", []string{"If-Modified-Since", modified}, 304},
		{"later date", []string{"If-Modified-Since", after}, 304},
		{"earlier date", []string{"If-Modified-Since", before}, 200},
		{"no date", []string{"If-Modified-Since", "yesterday"}, 200},
		{"same tag, earlier date", []string{"If-None-Match", etag, "If-Modified-Since", before}, 304},
		{"another tag, same date", []string{"If-None-Match", `"other"`, "If-Modified-Since", modified}, 200},
	}
}

func TestNginxConditionsOnStoredFile(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		stored := do(t, c, "GET", p.url+"/mid.bin").Header
		before := len(s.hits("/mid.bin"))
		for _, tt := range conditionTests(stored.Get("ETag"), stored.Get("Last-Modified")) {
			for _, method := range []string{"GET", "HEAD"} {
				r := do(t, c, method, p.url+"/mid.bin", tt.header...)
				assert.Equal(t, tt.code, r.Status, "%s: %s", method, tt.what)
				assert.Equal(t, "HIT", r.Header.Get(statusField), tt.what)
				assert.Equal(t, stored.Get("ETag"), r.Header.Get("ETag"), tt.what)
				assert.Equal(t, stored.Get("Cache-Control"), r.Header.Get("Cache-Control"), tt.what)
				switch {
				case method == "HEAD" || tt.code == 304:
					assert.Empty(t, r.Body, tt.what)
				default:
					equalBytes(t, s.file("mid.bin"), r.Body, tt.what)
				}
			}
		}
		assert.Len(t, s.hits("/mid.bin"), before)
	})
}

// A condition on a file that isn't stored yet is the client's alone: nginx is
// asked for the whole, so that the next one, who has nothing, gets it.
func TestNginxConditionsOnColdFile(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		direct := do(t, c, "HEAD", s.url+"/mid.bin").Header
		for i, tt := range conditionTests(direct.Get("ETag"), direct.Get("Last-Modified")) {
			path := "/mid.bin?cold-" + string(rune('a'+i)) + "-" + t.Name()[len("TestNginxConditionsOnColdFile/"):]
			r := do(t, c, "GET", p.url+path, tt.header...)
			assert.Equal(t, tt.code, r.Status, tt.what)
			next := do(t, c, "GET", p.url+path)
			// The body may still be on its way when the client has its 304.
			assert.Contains(t, []string{"HIT", "COLLAPSED"}, next.Header.Get(statusField), tt.what)
			equalBytes(t, s.file("mid.bin"), next.Body, tt.what)
			hits := s.hits(path)
			require.Len(t, hits, 1, tt.what)
			assert.Empty(t, hits[0].ifNoneMatch+hits[0].ifModified, tt.what)
		}
	})
}

// Preconditions of a write are nginx's to judge.
func TestNginxDemands(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	etag := do(t, c, "GET", p.url+"/mid.bin").Header.Get("ETag")
	r := do(t, c, "GET", p.url+"/mid.bin", "If-Match", etag)
	assert.Equal(t, 200, r.Status)
	equalBytes(t, s.file("mid.bin"), r.Body, "mid.bin")
	assert.Equal(t, 412, do(t, c, "GET", p.url+"/mid.bin", "If-Match", `"other"`).Status)
	assert.Equal(t, 412, do(t, c, "GET", p.url+"/mid.bin", "If-Unmodified-Since", "Mon, 01 Jan 2024 00:00:00 GMT").Status)
	assert.Equal(t, 200, do(t, c, "GET", p.url+"/mid.bin").Status)
}

// A client that wants to be sure has the stored file validated; the others go
// on being served from the store. A file that was replaced comes anew.
func TestNginxValidation(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		s.write("mid.txt", "the old one\n")
		first := do(t, c, "GET", p.url+"/mid.txt")
		before := len(s.hits("/mid.txt"))
		for i, wish := range []string{"no-cache", "max-age=0"} {
			r := do(t, c, "GET", p.url+"/mid.txt", "Cache-Control", wish)
			assert.Equal(t, 200, r.Status, wish)
			assert.Equal(t, "REVALIDATED", r.Header.Get(statusField), wish)
			assert.Equal(t, "the old one\n", r.Body, wish)
			hits := s.hits("/mid.txt")
			require.Len(t, hits, before+i+1)
			last := hits[len(hits)-1]
			assert.Equal(t, "304", last.status)
			assert.Equal(t, first.Header.Get("ETag"), last.ifNoneMatch)
			assert.Equal(t, first.Header.Get("Last-Modified"), last.ifModified)
		}
		r := do(t, c, "GET", p.url+"/mid.txt", "Pragma", "no-cache")
		assert.Equal(t, "REVALIDATED", r.Header.Get(statusField))
		r = do(t, c, "GET", p.url+"/mid.txt", "Cache-Control", "no-cache", "If-None-Match", first.Header.Get("ETag"))
		assert.Equal(t, 304, r.Status, "the client's own condition holds after the validation")

		s.write("mid.txt", "the new one, which is longer\n")
		r = do(t, c, "GET", p.url+"/mid.txt")
		assert.Equal(t, "the old one\n", r.Body, "fresh, so nobody asks")
		r = do(t, c, "GET", p.url+"/mid.txt", "Cache-Control", "no-cache", "If-None-Match", first.Header.Get("ETag"))
		assert.Equal(t, 200, r.Status, "the client's copy is old")
		assert.Equal(t, "the new one, which is longer\n", r.Body)
		assert.Equal(t, "EXPIRED", r.Header.Get(statusField))
		r = do(t, c, "GET", p.url+"/mid.txt")
		assert.Equal(t, "HIT", r.Header.Get(statusField))
		assert.Equal(t, "the new one, which is longer\n", r.Body)
	})
}

// With a range the validation is of the whole, and the part is of the new file.
func TestNginxValidationWithRange(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		s.write("mid.txt", "0123456789")
		do(t, c, "GET", p.url+"/mid.txt")
		r := do(t, c, "GET", p.url+"/mid.txt", "Cache-Control", "no-cache", "Range", "bytes=2-3")
		require.Equal(t, 206, r.Status)
		assert.Equal(t, "23", r.Body)
		s.write("mid.txt", "abcdefghijkl")
		r = do(t, c, "GET", p.url+"/mid.txt", "Cache-Control", "no-cache", "Range", "bytes=2-3")
		require.Equal(t, 206, r.Status)
		assert.Equal(t, "cd", r.Body)
		assert.Equal(t, "bytes 2-3/12", r.Header.Get("Content-Range"))
		// The rest of the new file may still be on its way; until it's all there
		// the old one, which is fresh, is what there is.
		eventually(t, "the new file is stored", func() bool {
			return do(t, c, "GET", p.url+"/mid.txt").Body == "abcdefghijkl"
		})
	})
}

// A lifetime that is over in reality, and the 304 that begins a new one.
func TestNginxExpiry(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		assert.Equal(t, "MISS", do(t, c, "GET", p.url+"/short/a.txt").Header.Get(statusField))
		before := len(s.hits("/short/a.txt"))
		eventually(t, "the file expires", func() bool {
			r := do(t, c, "GET", p.url+"/short/a.txt")
			require.Equal(t, "short\n", r.Body)
			if r.Header.Get(statusField) == "HIT" {
				return false
			}
			assert.Equal(t, "REVALIDATED", r.Header.Get(statusField))
			assert.Equal(t, "0", r.Header.Get("Age"))
			return true
		})
		hits := s.hits("/short/a.txt")
		require.Len(t, hits, before+1)
		assert.Equal(t, "304", hits[before].status)
		assert.Equal(t, "HIT", do(t, c, "GET", p.url+"/short/a.txt").Header.Get(statusField), "the 304 made it fresh")
	})
}
