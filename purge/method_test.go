package purge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestServePurge(t *testing.T) {
	tests := []struct {
		name   string
		target string
		header []string
		want   int
		gone   string // of the responses below
	}{
		{"exact", "http://z.example/a?q=1", nil, 200, "1"},
		{"exact without query", "http://z.example/a", nil, 200, "0"},
		{"any query", "http://z.example/a?x", []string{"Weir-Purge", "url"}, 200, "01"},
		{"prefix", "http://z.example/a", []string{"Weir-Purge", "Prefix"}, 200, "012"},
		{"host", "http://z.example/nothing", []string{"Weir-Purge", "host"}, 200, "0123"},
		{"soft", "http://z.example/a", []string{"Weir-Purge", "soft"}, 200, "s"},
		{"soft prefix", "http://z.example/a", []string{"Weir-Purge", "soft, prefix"}, 200, "sss"},
		{"tag", "http://z.example/whatever", []string{"Cache-Tag", "t2, t3"}, 200, "23"},
		{"soft tag", "http://z.example/", []string{"Cache-Tag", "t0", "Weir-Purge", "soft"}, 200, "s"},
		{"prefix with query", "http://z.example/a?q", []string{"Weir-Purge", "prefix"}, 200, "012"},
		{"unknown word", "http://z.example/a", []string{"Weir-Purge", "all"}, 400, ""},
		{"two words", "http://z.example/a", []string{"Weir-Purge", "host", "Weir-Purge", "url"}, 400, ""},
		{"tag and mode", "http://z.example/a", []string{"Cache-Tag", "t", "Weir-Purge", "url"}, 400, ""},
		{"no tags", "http://z.example/a", []string{"Cache-Tag", " ,"}, 400, ""},
		{"too many tags", "http://z.example/a", []string{"Cache-Tag", strings.Repeat("t,", 1001)}, 400, ""},
		{"tags that aren't configured", "http://z.example/a", []string{"Surrogate-Key", "t1"}, 400, ""},
		{"unknown host", "http://elsewhere/a", nil, 404, ""},
	}
	for _, tt := range tests {
		l := mustNew(t, Options{})
		h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone, TagFields: []TagField{{Name: "Cache-Tag"}},
			ZoneOf: func(host string) (string, bool) { return "z", host == "z.example" }})
		var stored []*Subject
		for i, f := range []Facts{{Path: "/a"}, {Path: "/a", Query: "q=1"}, {Path: "/ab"}, {Path: "/b"}} {
			f.Seq, f.Zone, f.Host, f.Tags = l.Now(), "z", "z.example", []string{"t" + string(rune('0'+i))}
			stored = append(stored, NewSubject(f))
		}
		r := httptest.NewRequest(Method, tt.target, nil)
		r.Header = header(tt.header...)
		w := httptest.NewRecorder()
		h.ServePurge(w, r)
		assert.Equal(t, tt.want, w.Code, "%s: %s", tt.name, w.Body)
		got := ""
		for i, s := range stored {
			switch l.Check(s) {
			case Gone:
				got += string(rune('0' + i))
			case Stale:
				got += "s"
			}
		}
		assert.Equal(t, tt.gone, got, tt.name)
	}
}

func TestServePurgeOddRequests(t *testing.T) {
	l := mustNew(t, Options{})
	h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone})
	for _, r := range []*http.Request{
		{Method: Method, Host: "a", URL: mustURL("*")},
		{Method: Method, Host: "", URL: mustURL("/")},
		{Method: Method, Host: "a/b", URL: mustURL("/")},
		{Method: "GET", Host: "a", URL: mustURL("/")},
	} {
		w := httptest.NewRecorder()
		before := l.Now()
		h.ServePurge(w, r)
		assert.Contains(t, []int{400, 405}, w.Code)
		assert.Equal(t, before, l.Now())
	}
}

// Whatever the request, there is no panic and no 5xx, and an error purges nothing.
func FuzzServePurge(f *testing.F) {
	f.Add("example.com", "/a%2fb", "q=1", "prefix, soft", "")
	f.Add("[::1]:80", "*", "#", "", "a, b")
	f.Fuzz(func(t *testing.T, host, path, query, mode, tags string) {
		l, err := New(Options{Rate: -1})
		assert.NoError(t, err)
		h := mustHandler(t, HandlerOptions{List: l, Authorise: anyone, TagFields: []TagField{{Name: "Cache-Tag"}}})
		u := mustURL("/")
		u.Path, u.RawQuery = path, query
		r := &http.Request{Method: Method, Host: host, URL: u, Header: http.Header{HeaderPurge: {mode}}}
		if tags != "" {
			r.Header["Cache-Tag"] = []string{tags}
		}
		w := httptest.NewRecorder()
		before := l.Now()
		h.ServePurge(w, r)
		assert.Less(t, w.Code, 500)
		assert.Equal(t, w.Code < 300, l.Now() > before)
	})
}
