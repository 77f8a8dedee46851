package integration

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// curl runs a command line as a person types it and returns what it prints.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	program := need(t, "curl", "apt-get install curl")
	cmd := exec.Command(program, append([]string{"-sS", "--max-time", "20", "--noproxy", "*"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "curl %s: %s", strings.Join(args, " "), &errs)
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// status is the status word in curl's output.
func status(out string) string {
	_, rest, _ := strings.Cut(out, "\n"+statusField+": ")
	word, _, _ := strings.Cut(rest, "\n")
	return word
}

func TestCurl(t *testing.T) {
	s := startSite(t)
	p := startProxy(t, s.url)
	text := s.file("gzip/text.txt")

	out := curl(t, "-i", p.url+"/a.txt")
	assert.True(t, strings.HasPrefix(out, "HTTP/1.1 200 OK\n"))
	assert.True(t, strings.HasSuffix(out, "\n\nhello\n"))
	assert.Equal(t, "MISS", status(out))
	assert.Equal(t, "HIT", status(curl(t, "-i", p.url+"/a.txt")))

	out = curl(t, "-I", p.url+"/a.txt")
	assert.Equal(t, "HIT", status(out))
	assert.Contains(t, out, "\nContent-Length: 6\n")
	assert.True(t, strings.HasSuffix(out, "\n\n"), "no body: %q", out)

	assert.Equal(t, "REVALIDATED", status(curl(t, "-i", "-H", "Cache-Control: no-cache", p.url+"/a.txt")))
	assert.Equal(t, "ell", curl(t, "-r", "1-3", p.url+"/a.txt"))
	assert.Equal(t, "lo\n", curl(t, "-r", "-3", p.url+"/a.txt"))
	assert.Contains(t, curl(t, "-i", "-r", "1-3", p.url+"/a.txt"), "\nContent-Range: bytes 1-3/6\n")
	assert.Contains(t, curl(t, "-i", "-r", "10-", p.url+"/a.txt"), "HTTP/1.1 416 ")

	for range 2 {
		equalBytes(t, text, curl(t, "--compressed", p.url+"/gzip/text.txt"), "--compressed")
		equalBytes(t, text, curl(t, p.url+"/gzip/text.txt"), "plain")
	}
	assert.Equal(t, "hello\n", curl(t, "-L", p.url+"/moved"), "redirected")
	assert.Equal(t, "hello\n", curl(t, "--http1.0", p.url+"/a.txt"))
	assert.Contains(t, curl(t, "-i", "-X", "DELETE", p.url+"/a.txt"), "HTTP/1.1 405 ")
	assert.Contains(t, curl(t, "-i", "-d", "a=b", p.url+"/a.txt"), "HTTP/1.1 405 ")
	assert.Contains(t, curl(t, "-i", p.url+"/nothing-here"), "HTTP/1.1 404 Not Found\n")
	assert.Equal(t, "HIT", status(curl(t, "-i", p.url+"/a.txt")), "failed writes change nothing")

	// Going on with a download that broke off, and asking only for what changed.
	part := filepath.Join(t.TempDir(), "part")
	writeFile(t, part, "hel")
	curl(t, "-C", "-", "-o", part, p.url+"/a.txt")
	assert.Equal(t, "lo\n", curl(t, "-r", "3-", p.url+"/a.txt"))
	assert.Equal(t, "304", curl(t, "-o", part, "-w", "%{http_code}", "-z", part, p.url+"/a.txt"))
	assert.Len(t, s.hits("/gzip/text.txt"), 2)
}

// Debugging explains each answer in the header.
func TestCurlDebug(t *testing.T) {
	s := startSite(t)
	p := startProxy(t, s.url, "-debug")
	for _, path := range []string{"/a.txt", "/a.txt", "/off/page.html", "/nothing-here"} {
		out := curl(t, "-i", p.url+path)
		assert.Contains(t, out, "\nWeir-Cache-Key: ", path)
		assert.Contains(t, out, "\nWeir-Cache-Reason: ", path)
		assert.Contains(t, out, "\nCache-Status: weir;", path)
	}
	// A request that never had a key doesn't show one made of zeros.
	assert.NotContains(t, curl(t, "-i", "-X", "POST", p.url+"/a.txt"), "000000")
}

// The first bytes of HTTP/2, which the proxy doesn't speak without TLS, are no
// request for the origin.
func TestHTTP2Preface(t *testing.T) {
	s := startSite(t)
	p := startProxy(t, s.url)
	_, r := dial(t, p.addr, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	assert.GreaterOrEqual(t, readResponse(t, r).StatusCode, 400)
	assert.Empty(t, s.hits("/%2A"))
}

// Two seconds of as many requests as there can be for one small file.
func TestWrk(t *testing.T) {
	wrk := need(t, "wrk", "apt-get install wrk")
	s := startSite(t)
	p := startProxy(t, s.url)
	out, err := exec.Command(wrk, "-t2", "-c16", "-d2s", p.url+"/a.txt").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), "Socket errors")
	assert.NotContains(t, string(out), "Non-2xx")
	m := regexp.MustCompile(`(\d+) requests in`).FindStringSubmatch(string(out))
	require.Len(t, m, 2, "%s", out)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	assert.Greater(t, n, 100, "%s", out)
	assert.Len(t, s.hits("/a.txt"), 1)
}
