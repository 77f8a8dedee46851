package integration

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// part is a range: the bytes from from to (not including) to.
type part struct{ from, to int }

// checkParts compares a 206 with the parts of the file.
func checkParts(t *testing.T, r *testnet.Response, file string, parts []part) {
	t.Helper()
	if len(parts) == 1 {
		p := parts[0]
		assert.Equal(t, fmt.Sprintf("bytes %d-%d/%d", p.from, p.to-1, len(file)), r.Header.Get("Content-Range"))
		equalBytes(t, file[p.from:p.to], r.Body, "part")
		return
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/byteranges", kind)
	assert.Empty(t, r.Header.Get("Content-Range"))
	assert.Equal(t, fmt.Sprint(len(r.Body)), r.Header.Get("Content-Length"))
	mr := multipart.NewReader(strings.NewReader(r.Body), params["boundary"])
	for _, p := range parts {
		got, err := mr.NextPart()
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("bytes %d-%d/%d", p.from, p.to-1, len(file)), got.Header.Get("Content-Range"))
		body, err := io.ReadAll(got)
		require.NoError(t, err)
		equalBytes(t, file[p.from:p.to], string(body), "part of several")
	}
	_, err = mr.NextPart()
	assert.ErrorIs(t, err, io.EOF)
}

// rangeTest is what a Range makes of a file of 100 KB.
type rangeTest struct {
	what   string
	header []string
	code   int
	parts  []part
}

func rangeTests(etag, modified string) []rangeTest {
	const size = 100 << 10
	r := func(v string, more ...string) []string { return append([]string{"Range", v}, more...) }
	return []rangeTest{
		{"first", r("bytes=0-9"), 206, []part{{0, 10}}},
		{"one byte", r("bytes=5-5"), 206, []part{{5, 6}}},
		{"open", r("bytes=102000-"), 206, []part{{102000, size}}},
		{"suffix", r("bytes=-7"), 206, []part{{size - 7, size}}},
		{"suffix longer than the file", r("bytes=-999999"), 206, []part{{0, size}}},
		{"beyond the end", r("bytes=102390-999999"), 206, []part{{102390, size}}},
		{"everything", r("bytes=0-"), 206, []part{{0, size}}},
		{"several", r("bytes=0-9,50000-50009,-5"), 206, []part{{0, 10}, {50000, 50010}, {size - 5, size}}},
		{"several, one of them beyond", r("bytes=0-9,999999-"), 206, []part{{0, 10}}},
		{"unsatisfiable", r("bytes=102400-"), 416, nil},
		{"empty suffix", r("bytes=-0"), 416, nil},
		{"another unit", r("lines=1-2"), 200, nil},
		{"If-Range with the tag", r("bytes=0-9", "If-Range", etag), 206, []part{{0, 10}}},
		{"If-Range with another tag", r("bytes=0-9", "If-Range", `"other"`), 200, nil},
		{"If-Range with a weak tag", r("bytes=0-9", "If-Range", "W/"+etag), 200, nil},
		{"If-Range with the date", r("bytes=0-9", "If-Range", modified), 206, []part{{0, 10}}},
		{"If-Range with another date", r("bytes=0-9", "If-Range", "Mon, 01 Jan 2024 00:00:00 GMT"), 200, nil},
		{"unsatisfiable, but If-Range doesn't hold", r("bytes=102400-", "If-Range", `"other"`), 200, nil},
		{"a condition that holds too", r("bytes=0-9", "If-None-Match", etag), 304, nil},
	}
}

func (tt *rangeTest) check(t *testing.T, r *testnet.Response, file string) {
	t.Helper()
	if !assert.Equal(t, tt.code, r.Status) {
		return
	}
	switch tt.code {
	case http.StatusOK:
		equalBytes(t, file, r.Body, tt.what)
		assert.Empty(t, r.Header.Get("Content-Range"))
	case http.StatusPartialContent:
		checkParts(t, r, file, tt.parts)
	case http.StatusRequestedRangeNotSatisfiable:
		assert.Equal(t, fmt.Sprintf("bytes */%d", len(file)), r.Header.Get("Content-Range"))
		assert.Empty(t, r.Header.Get("Content-Encoding"))
	case http.StatusNotModified:
		assert.Empty(t, r.Body)
	}
}

// Ranges of a stored file don't reach nginx.
func TestNginxRangesOfStoredFile(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		whole := do(t, c, "GET", p.url+"/mid.bin")
		before := len(s.hits("/mid.bin"))
		for _, tt := range rangeTests(whole.Header.Get("ETag"), whole.Header.Get("Last-Modified")) {
			t.Run(tt.what, func(t *testing.T) {
				r := do(t, c, "GET", p.url+"/mid.bin", tt.header...)
				assert.Equal(t, "HIT", r.Header.Get(statusField))
				tt.check(t, r, s.file("mid.bin"))
			})
		}
		assert.Len(t, s.hits("/mid.bin"), before)
	})
}

// The first request for a file is for a part of it: nginx is asked for all, or,
// by the letter of the RFC, for the part. Either way the answer is right, and
// so is the next one for the whole.
func TestNginxRangesOfColdFile(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		direct := do(t, c, "HEAD", s.url+"/mid.bin")
		for i, tt := range rangeTests(direct.Header.Get("ETag"), direct.Header.Get("Last-Modified")) {
			t.Run(tt.what, func(t *testing.T) {
				path := fmt.Sprintf("/mid.bin?rfc=%t&n=%d", args != nil, i)
				r := do(t, c, "GET", p.url+path, tt.header...)
				if strings.Contains(tt.header[1], ",") && r.Status == http.StatusOK && args == nil {
					equalBytes(t, s.file("mid.bin"), r.Body, "the whole answers as well")
				} else {
					tt.check(t, r, s.file("mid.bin"))
				}
				equalBytes(t, s.file("mid.bin"), do(t, c, "GET", p.url+path).Body, "the whole afterwards")
				hits := s.hits(path)
				switch all := []part{{0, len(s.file("mid.bin"))}}; {
				case args == nil:
					require.Len(t, hits, 1)
					assert.Empty(t, hits[0].ranges, "all of it is fetched")
				case r.Status == http.StatusOK && slices.Contains(tt.header, "If-Range"), assert.ObjectsAreEqual(all, tt.parts):
					require.Len(t, hits, 1, "the answer is the whole, and is kept")
					assert.Equal(t, tt.header[1], hits[0].ranges)
				default:
					require.Len(t, hits, 2)
					assert.Equal(t, tt.header[1], hits[0].ranges)
					assert.Empty(t, hits[1].ranges)
				}
			})
		}
	})
}

// Parts of a file that is never stored: the first may come out of a fetch of
// all, later ones are nginx's own.
func TestNginxRangesOfLargeFile(t *testing.T) {
	s := startSite(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, s.url, args...), newClient(t)
		const size = 5 << 20
		for _, tt := range []struct {
			asked string
			part  part
		}{
			{"bytes=0-9", part{0, 10}}, {"bytes=1000-2000", part{1000, 2001}}, {"bytes=-10", part{size - 10, size}},
			{"bytes=5000000-", part{5000000, size}}, {"bytes=10-4999999", part{10, 5000000}}, {"bytes=0-", part{0, size}},
		} {
			for range 2 {
				r := do(t, c, "GET", p.url+"/big.bin", "Range", tt.asked)
				require.Equal(t, 206, r.Status, tt.asked)
				checkParts(t, r, s.file("big.bin"), []part{tt.part})
			}
		}
		r := do(t, c, "GET", p.url+"/big.bin", "Range", "bytes=9999999-")
		assert.Equal(t, 416, r.Status)
		equalBytes(t, s.file("big.bin"), do(t, c, "GET", p.url+"/big.bin").Body, "all of it")
	})
}

// Each part of a large file alone, by a proxy that never saw it before. The
// part may begin after everything that is kept of a body on its way.
func TestNginxRangesOfLargeColdFile(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	const size = 5 << 20
	for i, tt := range []struct {
		asked string
		part  part
	}{
		{"bytes=0-9", part{0, 10}}, {"bytes=5000000-5000009", part{5000000, 5000010}}, {"bytes=5000000-", part{5000000, size}},
		{"bytes=-10", part{size - 10, size}}, {"bytes=100-", part{100, size}},
	} {
		r := do(t, c, "GET", fmt.Sprintf("%s/big.bin?%d", p.url, i), "Range", tt.asked)
		require.Equal(t, 206, r.Status, tt.asked)
		checkParts(t, r, s.file("big.bin"), []part{tt.part})
	}
}

// Ranges of a compressed response are ranges of the compressed bytes.
func TestNginxRangesOfCompressed(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	whole := do(t, c, "GET", p.url+"/gzip/text.txt", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", whole.Header.Get("Content-Encoding"))
	r := do(t, c, "GET", p.url+"/gzip/text.txt", "Accept-Encoding", "gzip", "Range", "bytes=10-19")
	require.Equal(t, 206, r.Status)
	assert.Equal(t, "gzip", r.Header.Get("Content-Encoding"))
	equalBytes(t, whole.Body[10:20], r.Body, "compressed part")

	// nginx marks what it compressed on the way with a weak tag, which names
	// no bytes.
	r = do(t, c, "GET", p.url+"/gzip/text.txt", "Accept-Encoding", "gzip", "Range", "bytes=10-19", "If-Range", whole.Header.Get("ETag"))
	assert.Equal(t, 200, r.Status)
	equalBytes(t, whole.Body, r.Body, "the whole for a weak tag")

	r = do(t, c, "GET", p.url+"/gzip/text.txt", "Range", "bytes=10-19")
	require.Equal(t, 206, r.Status)
	equalBytes(t, s.file("gzip/text.txt")[10:20], r.Body, "plain part")
}

// Ranges that only mean harm get the whole, or an error, and never much work.
func TestNginxDegenerateRanges(t *testing.T) {
	s := startSite(t)
	p, c := startProxy(t, s.url), newClient(t)
	do(t, c, "GET", p.url+"/mid.bin")
	many := "bytes=" + strings.TrimSuffix(strings.Repeat("0-,", 500), ",")
	for _, asked := range []string{"bytes=", "bytes=5-2", "bytes=a-b", "bytes=0-0x", "bytes", "=0-1", "bytes=99999999999999999999-", many} {
		r := do(t, c, "GET", p.url+"/mid.bin", "Range", asked)
		switch r.Status {
		case http.StatusOK:
			equalBytes(t, s.file("mid.bin"), r.Body, asked)
		case http.StatusRequestedRangeNotSatisfiable:
			assert.Empty(t, r.Body)
		default:
			t.Errorf("%.40s: status %d", asked, r.Status)
		}
	}
}
