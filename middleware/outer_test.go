package middleware

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// Fields that outer handlers set before are still there, joined where the field
// is a list; none of them is stored.
func TestOuterFieldsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Vary", "Mood", "Link", "<a>", "X-Both", "inner"))
		for _, word := range []string{"MISS", "HIT"} {
			w := recorder()
			w.Header().Set("Vary", "Origin")
			w.Header().Add("Set-Cookie", "outer=1")
			w.Header().Set("Link", "<b>")
			w.Header().Set("X-Outer", "o")
			w.Header().Set("X-Both", "outer")
			r := s.send(w, request("GET", "/"))
			require.Equal(t, word, r.header.Get("Weir-Cache-Status"))
			require.Equal(t, []string{"Origin", "Mood"}, r.header["Vary"])
			require.Equal(t, []string{"outer=1"}, r.header["Set-Cookie"])
			require.Equal(t, []string{"<b>", "<a>"}, r.header["Link"])
			require.Equal(t, "o", r.header.Get("X-Outer"))
			require.Equal(t, []string{"inner"}, r.header["X-Both"])
		}
		r := s.get("/")
		require.Equal(t, []string{"Mood"}, r.header["Vary"])
		require.NotContains(t, r.header, "Set-Cookie")
		require.NotContains(t, r.header, "X-Outer")
	})
}

// A value that is there twice is sent once.
func TestOuterFieldEqualToTheInner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Vary", "Origin", "Vary", "Mood"))
		w := recorder()
		w.Header().Set("Vary", "Origin")
		r := s.send(w, request("GET", "/"))
		require.Equal(t, []string{"Origin", "Mood"}, r.header["Vary"])
	})
}

// An outer handler's cookie and the origin's, which came with a 304, reach the
// client both.
func TestOuterCookieBesideThatOfA304(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("page", "no-cache", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`, "Set-Cookie", "inner=1"))
		s.get("/")
		w := recorder()
		w.Header().Set("Set-Cookie", "outer=1")
		r := s.send(w, request("GET", "/"))
		require.Equal(t, "REVALIDATED", r.header.Get("Weir-Cache-Status"))
		require.Equal(t, []string{"outer=1", "inner=1"}, r.header["Set-Cookie"])
	})
}

// The type of a body is found out as net/http does without a cache: from what
// several small writes make together, not with a Content-Encoding, not if the
// handler wants none. The hit has the same type as the miss.
func TestSniffedTypeIsThatOfNetHTTP(t *testing.T) {
	long := strings.Repeat(" ", 600)
	for name, handler := range map[string]http.HandlerFunc{
		"one write":         writes(nil, "<html>hello"),
		"small writes":      writes(nil, "<ht", "ml>", "hello"),
		"white space first": writes(nil, "\n", "  ", "<!DOCTYPE html>", "<p>"),
		"beyond 512":        writes(nil, long[:511], "<html>"),
		"png":               writes(nil, "\x89PNG\x0D\x0A\x1A\x0A"),
		"text":              writes(nil, "hello"),
		"empty":             writes(nil),
		"encoded":           writes(http.Header{"Content-Encoding": {"gzip"}}, "\x1f\x8b\x08"),
		"none wanted":       writes(http.Header{"Content-Type": nil}, "<html>"),
		"given":             writes(http.Header{"Content-Type": {"text/odd"}}, "<html>"),
		"length":            writes(http.Header{"Content-Length": {"6"}}, "<ht", "ml>"),
	} {
		t.Run(name, func(t *testing.T) {
			bare := testnet.Serve(t, handler).Get(t, "/")
			mw, err := New(Options{})
			require.NoError(t, err)
			defer mw.Close(t.Context())
			cached := testnet.Serve(t, mw.Wrap(handler))
			for _, word := range []string{"MISS", "HIT"} {
				r := cached.Get(t, "/")
				require.Equal(t, word, r.Header.Get("Weir-Cache-Status"))
				require.Equal(t, bare.Header["Content-Type"], r.Header["Content-Type"])
				require.Equal(t, bare.Body, r.Body)
			}
		})
	}
}

// A handler that flushes early has told all it knows: its type is found out from
// what it wrote until then.
func TestSniffedTypeOfFlushedBeginning(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		_, _ = w.Write([]byte("<html>"))
		w.(http.Flusher).Flush()
		_, _ = w.Write([]byte("hello"))
	})
	mw, err := New(Options{})
	require.NoError(t, err)
	defer mw.Close(t.Context())
	h := mw.Wrap(handler)
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/"))
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "<html>hello", w.Body.String())
	}
}

// writes is a handler that writes the parts, each by itself.
func writes(header http.Header, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		for name, values := range header {
			w.Header()[name] = values
		}
		for _, p := range parts {
			_, _ = w.Write([]byte(p))
		}
	}
}
