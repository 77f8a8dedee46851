package middleware

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// typed is a handler that says in some way, or doesn't, which type its page has.
type typed struct {
	name  string
	outer string                                       // what an outer handler says
	serve func(w http.ResponseWriter, r *http.Request) // sets fields and writes page
	want  []string                                     // nil: no such field
}

// The page looks like another type at its beginning than anywhere else.
const page = "<!DOCTYPE html><p>" + "plain text that goes on for a while"

var typedHandlers = []typed{
	{"net/http guesses", "", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, page)
	}, []string{"text/html; charset=utf-8"}},
	{"net/http guesses from what several writes make", "", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, page[:3])
		io.WriteString(w, page[3:])
	}, []string{"text/html; charset=utf-8"}},
	{"net/http guesses from what is flushed first", "", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, page[:3])
		w.(http.Flusher).Flush()
		io.WriteString(w, page[3:])
	}, []string{"text/plain; charset=utf-8"}},
	{"the head is flushed first", "", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, page)
	}, nil},
	{"a proxy says that there is none", "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, page)
	}, nil},
	{"the handler says which", "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = []string{"image/x-test"}
		io.WriteString(w, page)
	}, []string{"image/x-test"}},
	{"encoded, of which net/http guesses nothing", "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Encoding"] = []string{"x-test"}
		io.WriteString(w, page)
	}, nil},
	{"an outer handler says which", "image/x-outer", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, page)
	}, []string{"image/x-outer"}},
	{"an outer handler says which, a proxy that there is none", "image/x-outer", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, page)
	}, nil},
	{"net/http guesses, with trailers", "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Trailer"] = []string{"X-Sum"}
		io.WriteString(w, page)
		w.Header()["X-Sum"] = []string{"1"}
	}, []string{"text/html; charset=utf-8"}},
	{"none, with trailers", "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"], w.Header()["Trailer"] = nil, []string{"X-Sum"}
		io.WriteString(w, page)
		w.Header()["X-Sum"] = []string{"1"}
	}, nil},
	{"the head is flushed first, with trailers", "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Trailer"] = []string{"X-Sum"}
		w.(http.Flusher).Flush()
		io.WriteString(w, page)
		w.Header()["X-Sum"] = []string{"1"}
	}, nil},
}

// origin makes a handler out of h, whose answer depends on the request: what is asked
// conditionally hasn't changed, and with Sick the origin fails.
func (h *typed) origin(w http.ResponseWriter, r *http.Request) {
	control := "max-age=60"
	if strings.HasPrefix(r.URL.Path, "/stale") {
		control = "max-age=0, stale-if-error=60"
	}
	head := w.Header()
	head["Cache-Control"], head["Etag"] = []string{control}, []string{`"1"`}
	switch {
	case r.Header.Get("Sick") != "":
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case r.Header.Get("If-None-Match") != "":
		w.WriteHeader(http.StatusNotModified)
		return
	case r.Method == http.MethodPost:
		head["Content-Location"] = []string{r.URL.Path}
	}
	h.serve(w, r)
}

// around is h behind the outer handler.
func (h *typed) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.outer != "" {
			w.Header().Set("Content-Type", h.outer)
		}
		next.ServeHTTP(w, r)
	})
}

// typesRig is the cache on a real server, which alone guesses as net/http does.
type typesRig struct {
	t   *testing.T
	h   *typed
	dir string
	o   Options

	mw  *Middleware
	srv *httptest.Server
}

func (g *typesRig) start() {
	o := g.o
	o.Store, o.Purge = store.Options{Disk: openDisk(g.t, filepath.Join(g.dir, "objects"))}, journalIn(g.dir)
	o.Logger = quietLog()
	var err error
	g.mw, err = New(o)
	require.NoError(g.t, err)
	g.srv = httptest.NewServer(g.h.around(g.mw.Wrap(http.HandlerFunc(g.h.origin))))
}

func (g *typesRig) stop() {
	g.srv.Close()
	require.NoError(g.t, g.mw.Close(context.Background()))
}

// ask sends a request and returns the answer's type, and how the cache stood to it.
func (g *typesRig) ask(method, path string, header ...string) (types []string, word string) {
	g.t.Helper()
	types, word, body := askType(g.t, g.srv.URL, method, path, header...)
	if strings.HasPrefix(strings.Join(types, ""), "multipart/byteranges") {
		// The type is each part's own.
		_, head, _ := strings.Cut(body, "\r\n")
		head, _, _ = strings.Cut(head, "\r\n\r\n")
		types = nil
		for line := range strings.SplitSeq(head, "\r\n") {
			if v, ok := strings.CutPrefix(line, "Content-Type: "); ok {
				types = append(types, v)
			}
		}
	}
	return types, word
}

func askType(t *testing.T, url, method, path string, header ...string) (types []string, word, body string) {
	t.Helper()
	r, err := http.NewRequest(method, url+path, nil)
	require.NoError(t, err)
	r.Host = "shop.test"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.Header["Content-Type"], res.Header.Get("Weir-Cache-Status"), string(text)
}

// Whichever way an answer comes about, its type is what the handler's own is on a
// server without a cache.
func TestContentTypeIsTheHandlersOwn(t *testing.T) {
	for _, h := range typedHandlers {
		t.Run(h.name, func(t *testing.T) {
			bare := httptest.NewServer(h.around(http.HandlerFunc(h.serve)))
			defer bare.Close()
			types, _, _ := askType(t, bare.URL, "GET", "/")
			require.Equal(t, h.want, types, "without a cache")

			g := &typesRig{t: t, h: &h, dir: t.TempDir(), o: Options{Default: Route{StorePost: true}}}
			g.start()
			defer func() { g.stop() }()
			for _, c := range []struct {
				name   string
				method string
				path   string
				header []string
				word   string
			}{
				{"miss", "GET", "/page", nil, "MISS"},
				{"hit", "GET", "/page", nil, "HIT"},
				{"HEAD", "HEAD", "/page", nil, "HIT"},
				{"range", "GET", "/page", []string{"Range", "bytes=20-30"}, "HIT"},
				{"first range", "GET", "/page", []string{"Range", "bytes=0-9"}, "HIT"},
				{"two ranges", "GET", "/page", []string{"Range", "bytes=20-21,30-31"}, "HIT"},
				{"miss for a range", "GET", "/other", []string{"Range", "bytes=20-30"}, "MISS"},
				{"stale from the start", "GET", "/stale", nil, "MISS"},
				{"confirmed", "GET", "/stale", nil, "REVALIDATED"},
				{"confirmed for a range", "GET", "/stale", []string{"Range", "bytes=20-30"}, "REVALIDATED"},
				{"stale", "GET", "/stale", []string{"Sick", "1"}, "STALE-ERROR"},
				{"a stale range", "GET", "/stale", []string{"Sick", "1", "Range", "bytes=20-30"}, "STALE-ERROR"},
				{"HEAD with a sick origin", "HEAD", "/stale", []string{"Sick", "1"}, "STALE-ERROR"},
				{"not shared", "GET", "/page", []string{"Cookie", "a=b"}, "DYNAMIC"},
				{"passed", "GET", "/page", []string{"Connection", "Upgrade", "Upgrade", "x-test"}, "BYPASS"},
				{"a POST's answer", "POST", "/posted", nil, "BYPASS"},
				{"hit on a POST's answer", "GET", "/posted", nil, "HIT"},
				{"restart", "", "", nil, ""},
				{"hit on disk", "GET", "/page", nil, "HIT"},
				{"range on disk", "GET", "/page", []string{"Range", "bytes=20-30"}, "HIT"},
				{"confirmed on disk", "GET", "/stale", nil, "REVALIDATED"},
			} {
				if c.name == "restart" {
					g.stop()
					g.start()
					continue
				}
				types, word := g.ask(c.method, c.path, c.header...)
				assert.Equal(t, h.want, types, c.name)
				assert.Equal(t, c.word, word, c.name)
			}
		})
	}
}

// Where ranges are handed on, net/http guesses the type of each part from its bytes,
// whether they come from the handler or are kept. A whole that comes instead has its
// own type, also when a part of it is sent.
func TestContentTypeOfPartsHandedOn(t *testing.T) {
	part := func(says ...string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if says != nil {
				w.Header()["Content-Type"] = says
			}
			first, last := 0, 0
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last)
			w.Header()["Content-Range"] = []string{fmt.Sprintf("bytes %d-%d/%d", first, last, len(page))}
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, page[first:last+1])
		}
	}
	html, plain := []string{"text/html; charset=utf-8"}, []string{"text/plain; charset=utf-8"}
	for _, c := range []struct {
		typed
		within []string // the type of a part of it
	}{
		{typed{"net/http guesses the part's", "", part(), html}, plain},
		{typed{"a proxy says that the part has none", "", part([]string{}...), nil}, nil},
		{typed{"the handler says the part's", "", part("image/x-test"), []string{"image/x-test"}}, []string{"image/x-test"}},
		{typed{"an outer handler says the part's", "image/x-outer", part(), []string{"image/x-outer"}}, []string{"image/x-outer"}},
		{typedHandlers[0], html},
		{typedHandlers[4], nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare := httptest.NewServer(c.around(http.HandlerFunc(c.origin)))
			defer bare.Close()
			g := &typesRig{t: t, h: &c.typed, dir: t.TempDir(), o: Options{Default: Route{ForwardRange: true}}}
			g.start()
			defer g.stop()
			types, _, _ := askType(t, bare.URL, "GET", "/", "Range", "bytes=0-40")
			assert.Equal(t, c.want, types, "without a cache")
			for i, word := range []string{"BYPASS", "HIT"} {
				types, got := g.ask("GET", "/page", "Range", "bytes=0-40")
				assert.Equal(t, c.want, types, i)
				assert.Equal(t, word, got)
			}
			types, got := g.ask("GET", "/page", "Range", "bytes=20-30")
			assert.Equal(t, c.within, types)
			assert.Equal(t, "HIT", got)
		})
	}
}
