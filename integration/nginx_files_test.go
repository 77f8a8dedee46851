package integration

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func unpacked(t *testing.T, body string) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

// equalBytes compares bodies without printing megabytes.
func equalBytes(t *testing.T, want, got, what string) {
	t.Helper()
	if want == got {
		return
	}
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	t.Errorf("%s: %d bytes are wanted and %d there; they differ from byte %d on", what, len(want), len(got), at)
}

func TestNginxFiles(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		for _, name := range []string{"a.txt", "empty.txt", "mid.txt", "mid.bin", "style.css"} {
			before := len(s.hits("/" + name))
			for i, status := range []string{"MISS", "HIT", "HIT"} {
				r := do(t, c, "GET", p.url+"/"+name)
				assert.Equal(t, 200, r.Status)
				assert.Equal(t, status, r.Header.Get(statusField), "%s, time %d", name, i)
				assert.Equal(t, strconv.Itoa(len(s.file(name))), r.Header.Get("Content-Length"))
				assert.Equal(t, "nginx/", r.Header.Get("Server")[:6])
				equalBytes(t, s.file(name), r.Body, name)
			}
			assert.Len(t, s.hits("/"+name), before+1, name)
		}
	})
}

// A file that is larger than anything kept is handed through each time, whole.
func TestNginxFileTooLargeToKeep(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		before := len(s.hits("/big.bin"))
		for range 3 {
			r := do(t, c, "GET", p.url+"/big.bin")
			assert.NotEqual(t, "HIT", r.Header.Get(statusField))
			equalBytes(t, s.file("big.bin"), r.Body, "big.bin")
		}
		assert.Len(t, s.hits("/big.bin"), before+3)
	})
}

// Many clients of a large file at once: each gets all of it.
func TestNginxLargeFileForMany(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	var answers []<-chan answer
	for range 8 {
		answers = append(answers, ask(c, p.url+"/big.bin"))
	}
	for _, a := range answers {
		r := await(t, a)
		require.NoError(t, r.err)
		equalBytes(t, s.file("big.bin"), r.Body, "big.bin")
	}
	assert.LessOrEqual(t, len(s.hits("/big.bin")), 8)
}

func TestNginxHead(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		before := len(s.hits("/mid.bin"))
		head := func(status string) {
			t.Helper()
			r := do(t, c, "HEAD", p.url+"/mid.bin")
			assert.Equal(t, 200, r.Status)
			assert.Equal(t, status, r.Header.Get(statusField))
			assert.Equal(t, "102400", r.Header.Get("Content-Length"))
			assert.Empty(t, r.Body)
		}
		head("MISS")
		head("MISS")
		r := do(t, c, "GET", p.url+"/mid.bin")
		assert.Equal(t, "MISS", r.Header.Get(statusField), "what HEAD brought has no body")
		equalBytes(t, s.file("mid.bin"), r.Body, "mid.bin")
		head("HIT")
		equalBytes(t, s.file("mid.bin"), do(t, c, "GET", p.url+"/mid.bin").Body, "mid.bin after HEAD")
		var methods []string
		for _, h := range s.hits("/mid.bin")[before:] {
			methods = append(methods, h.method)
		}
		assert.Equal(t, []string{"HEAD", "HEAD", "GET"}, methods)
	})
}

func TestNginxCompression(t *testing.T) {
	s := startSite(t)
	for _, path := range []string{"/gzip/text.txt", "/static/text.txt"} {
		inProfiles(t, func(t *testing.T, args []string) {
			p, c := startProxy(t, s.url, args...), newClient(t)
			text := s.file(path[1:])
			before := len(s.hits(path))
			tests := []struct {
				accept string
				gzip   bool
			}{
				{"", false}, {"gzip", true}, {"identity", false}, {"gzip;q=0", false}, {"gzip;q=0, identity", false},
				{"br, gzip", true}, {"br", false}, {"gzip, deflate, br, zstd", true},
			}
			for round := range 2 {
				for _, tt := range tests {
					var header []string
					if tt.accept != "" {
						header = []string{"Accept-Encoding", tt.accept}
					}
					r := do(t, c, "GET", p.url+path, header...)
					assert.Equal(t, "Accept-Encoding", r.Header.Get("Vary"))
					assert.Equal(t, []string{"MISS", "HIT"}[round], r.Header.Get(statusField), "%q", tt.accept)
					body := r.Body
					if tt.gzip {
						require.Equal(t, "gzip", r.Header.Get("Content-Encoding"), "%q", tt.accept)
						body = unpacked(t, body)
					} else {
						assert.Empty(t, r.Header.Get("Content-Encoding"), "%q", tt.accept)
					}
					equalBytes(t, text, body, path+" with "+tt.accept)
				}
			}
			assert.Len(t, s.hits(path), before+len(tests))
		})
	}
}

// The locations differ in what they say about caching.
func TestNginxDirectives(t *testing.T) {
	s := startSite(t)
	tests := []struct {
		path          string
		code          int
		safe, theirs  string // the status word of the second request, in each profile
		requests, rfc int    // of three
	}{
		{"/moved", 301, "HIT", "HIT", 1, 1},
		{"/nothing-here", 404, "DYNAMIC", "DYNAMIC", 3, 3},
		{"/empty/", 403, "DYNAMIC", "DYNAMIC", 3, 3},
		{"/private/a.txt", 200, "DYNAMIC", "DYNAMIC", 3, 3},
		{"/off/page.html", 200, "DYNAMIC", "HIT", 3, 1}, // no lifetime; pages get none by guess
		{"/off/page.txt", 200, "DYNAMIC", "HIT", 3, 1},
		{"/off/style.css", 200, "HIT", "HIT", 1, 1}, // style sheets do
		{"/never/a.txt", 200, "REVALIDATED", "REVALIDATED", 3, 3},
	}
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		for _, tt := range tests {
			word, count := tt.safe, tt.requests
			if args != nil {
				word, count = tt.theirs, tt.rfc
			}
			before := len(s.hits(tt.path))
			first := do(t, c, "GET", p.url+tt.path)
			second := do(t, c, "GET", p.url+tt.path)
			third := do(t, c, "GET", p.url+tt.path)
			assert.Equal(t, tt.code, first.Status, tt.path)
			assert.Equal(t, tt.code, second.Status, tt.path)
			assert.Equal(t, word, second.Header.Get(statusField), tt.path)
			assert.Equal(t, word, third.Header.Get(statusField), tt.path)
			assert.Equal(t, first.Body, third.Body, tt.path)
			assert.Equal(t, first.Header.Get("Location"), third.Header.Get("Location"), tt.path)
			assert.Len(t, s.hits(tt.path), before+count, tt.path)
		}
	})
}

// Sixteen at once for a cold file make one request, in whatever way they ask.
func TestNginxColdTogether(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	var answers []<-chan answer
	for range 16 {
		answers = append(answers, ask(c, p.url+"/mid.bin"))
	}
	for _, a := range answers {
		r := await(t, a)
		require.NoError(t, r.err)
		assert.Equal(t, http.StatusOK, r.Status)
		equalBytes(t, s.file("mid.bin"), r.Body, "mid.bin")
	}
	assert.Len(t, s.hits("/mid.bin"), 1)
}
