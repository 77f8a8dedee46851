package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// versionedHost is what the pages' URLs say, so that a process's port is not in
// the key.
const versionedHost = "shop.test"

// versionedPage is a page whose content is a number that only grows.
type versionedPage struct {
	path, tag string
	size      int
	version   atomic.Int64 // what the origin has
	floor     atomic.Int64 // the least that may be served since an acknowledged purge
}

// versioned is an origin of such pages. What it sends says itself which page and
// version it is, and every byte of it depends on both.
type versioned struct {
	url   string
	pages []*versionedPage
	asked atomic.Int64
}

// versionedSizes are what fits into one write, into a block of the disk's table,
// into memory, and what only the disk takes.
var versionedSizes = [...]int{100, 1000, 20_000, 100, 5000, 300_000, 1000, 20_000, 5000, 100, 150_000, 3 << 20}

func startVersioned(t *testing.T, pages int) *versioned {
	t.Helper()
	o := &versioned{}
	for i := range pages {
		p := &versionedPage{
			path: fmt.Sprintf("/%c/%d", 'a'+i%3, i), tag: fmt.Sprint("t", i%5), size: versionedSizes[i%len(versionedSizes)],
		}
		p.version.Store(1)
		o.pages = append(o.pages, p)
	}
	srv := httptest.NewServer(o)
	t.Cleanup(srv.Close)
	o.url = srv.URL
	return o
}

func (o *versioned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.asked.Add(1)
	for _, p := range o.pages {
		if p.path == r.URL.Path {
			p.serve(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

func (p *versionedPage) serve(w http.ResponseWriter, r *http.Request) {
	v := p.version.Load()
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Surrogate-Key", "all "+p.tag)
	h.Set("ETag", p.etag(v))
	if r.Header.Get("If-None-Match") == p.etag(v) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := p.body(v)
	if v%2 == 0 { // else it's chunked
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	half := len(body) / 2
	_, _ = w.Write(body[:half])
	if p.size > 64<<10 {
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = w.Write(body[half:])
}

func (p *versionedPage) etag(v int64) string { return fmt.Sprintf(`"%s v%d"`, p.path, v) }

// body is the page at a version: a line that says so, and bytes that follow from it.
func (p *versionedPage) body(v int64) []byte {
	b := make([]byte, p.size)
	n := copy(b, fmt.Sprintf("%s %d %s\n", p.path, v, p.tag))
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(v))
	copy(seed[8:], p.path)
	_, _ = rand.NewChaCha8(seed).Read(b[n:])
	return b
}

// errUnfinished is a body that the client can tell isn't whole.
var errUnfinished = errors.New("the body broke off")

// check reads a 200 or 206 to its end. The error is errUnfinished if that shows on
// the wire, and any other one is wrong content.
func (p *versionedPage) check(resp *http.Response) (version int64, err error) {
	got, readErr := io.ReadAll(resp.Body)
	path, rest, _ := strings.Cut(strings.Trim(resp.Header.Get("ETag"), `"`), " v")
	version, err = strconv.ParseInt(rest, 10, 64)
	if err != nil || path != p.path {
		return 0, fmt.Errorf("the entity tag is %q", resp.Header.Get("ETag"))
	}
	want := p.body(version)
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusPartialContent:
		var first, last int
		var size string // "*" while it's arriving and nobody knows
		_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%s", &first, &last, &size)
		if err != nil || size != "*" && size != strconv.Itoa(p.size) || first > last || last >= p.size {
			return 0, fmt.Errorf("Content-Range: %q of %d bytes", resp.Header.Get("Content-Range"), p.size)
		}
		want = want[first : last+1]
	default:
		return 0, fmt.Errorf("status %d: %.200s", resp.StatusCode, got)
	}
	switch {
	case readErr != nil && bytes.HasPrefix(want, got):
		return 0, errUnfinished
	case !bytes.Equal(want, got):
		return 0, fmt.Errorf("%d bytes of %d that aren't version %d (read error: %v)", len(got), len(want), version, readErr)
	}
	return version, nil
}

// get sends a GET, with more fields if there are any, and checks what comes: whole,
// of the page, and not older than the purges acknowledged before it was sent. It
// returns the cache's status, or "" if the process wasn't there or went away.
func (p *versionedPage) get(c *http.Client, url string, header ...string) (status string, err error) {
	req, err := http.NewRequest(http.MethodGet, url+p.path, nil)
	if err != nil {
		return "", err
	}
	req.Host = versionedHost
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	floor := p.floor.Load()
	resp, err := c.Do(req)
	if err != nil {
		return "", nil
	}
	defer resp.Body.Close()
	status = resp.Header.Get(statusField)
	version, err := p.check(resp)
	switch newest := p.version.Load(); {
	case errors.Is(err, errUnfinished):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%s (%s): %w", p.path, status, err)
	case version < floor:
		return "", fmt.Errorf("%s (%s): version %d, but %d was purged durably (the origin has %d)", p.path, status, version, floor-1, newest)
	case version > newest:
		return "", fmt.Errorf("%s (%s): version %d, but the origin has only %d", p.path, status, version, newest)
	}
	return status, nil
}

// raise makes n the floor, unless it is higher already.
func (p *versionedPage) raise(n int64) {
	for {
		was := p.floor.Load()
		if was >= n || p.floor.CompareAndSwap(was, n) {
			return
		}
	}
}
