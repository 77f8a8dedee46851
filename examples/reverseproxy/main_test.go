package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// asCommand makes the test's binary behave as the command.
const asCommand = "WEIR_TEST_REVERSEPROXY"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	if os.Getenv(asEmpty) != "" {
		serveEmpty()
	}
	testnet.MainCheck(m)
}

var ready = regexp.MustCompile(`^listening on (http://127\.0\.0\.1:[0-9]+), origin (http://[^,]+)(?:, purge API on (http://\S+))?$`)

// readLine returns the proxy's URL from its first line.
func readLine(t *testing.T, stdout io.Reader, origin string) (url, admin string, rest *bufio.Reader) {
	t.Helper()
	rest = bufio.NewReader(stdout)
	line, err := rest.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	m := ready.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
	if m == nil || m[2] != origin {
		t.Fatalf("the first line is %q", line)
	}
	return m[1], m[3], rest
}

// proxy is a running proxy.
type proxy struct {
	url   string
	admin string
	stop  context.CancelFunc
	done  chan error
}

// start runs the proxy in front of an origin, or of several with spaces between.
func start(t *testing.T, origin string, args ...string) *proxy {
	t.Helper()
	for o := range strings.FieldsSeq(origin) {
		args = append(args, "-origin", o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{stop: cancel, done: make(chan error, 1)}
	pr, pw := io.Pipe()
	go func() {
		p.done <- run(ctx, append([]string{"-listen", "127.0.0.1:0"}, args...), pw, io.Discard)
		pw.Close()
	}()
	t.Cleanup(cancel)
	var rest *bufio.Reader
	p.url, p.admin, rest = readLine(t, pr, origin)
	go func() { _, _ = io.Copy(io.Discard, rest) }()
	return p
}

// end stops the proxy and fails the test unless that's clean.
func (p *proxy) end(t *testing.T) {
	t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// client has no connections left over when a test ends.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func newOrigin(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	o := httptest.NewServer(h)
	t.Cleanup(o.Close)
	return o
}

func TestHit(t *testing.T) {
	var asked atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprintf(w, "%d: %s of %s", asked.Add(1), r.URL, r.Host)
	})
	p := start(t, o.URL+"/base", "-debug")
	want := "1: /base/page?q=1 of " + strings.TrimPrefix(p.url, "http://")
	var seen []string
	for !slices.Contains(seen, trace.Hit.String()) {
		resp, body := get(t, p.url+"/page?q=1")
		seen = append(seen, resp.Header.Get(trace.DefaultStatusHeader))
		if body != want {
			t.Fatalf("%q: the page is %q, want %q", seen, body, want)
		}
		if resp.Header.Get(trace.HeaderCacheReason) == "" {
			t.Errorf("%q: -debug gives no reason", seen)
		}
	}
	// Who asks again at once may come before the response is stored.
	seen = slices.DeleteFunc(seen, func(s string) bool { return s == trace.Collapsed.String() })
	if want := []string{trace.Miss.String(), trace.Hit.String()}; !slices.Equal(seen, want) {
		t.Errorf("the answers are %q, want %q", seen, want)
	}
	p.end(t)
	if n := asked.Load(); n != 1 {
		t.Errorf("the origin was asked %d times", n)
	}
}

// What is purged is asked of the origin again: by tag over the API for whoever has
// the token, by URL or tag with PURGE for peers that are allowed to.
func TestPurge(t *testing.T) {
	var asked atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Surrogate-Key", "one two")
		fmt.Fprint(w, asked.Add(1))
	})
	p := start(t, o.URL, "-admin", "127.0.0.1:0", "-admin-token", "secret", "-tag-header", "Surrogate-Key",
		"-allow-purge", "10.0.0.0/8", "-allow-purge", "127.0.0.1")
	defer p.end(t)
	call := func(method, url, body string, header ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	const json = `{"purge": [{"kind": "tag", "tag": "two"}]}`
	for i, purge := range []func() int{
		func() int { return 0 },
		func() int { return call("PURGE", p.url+"/page", "") },
		func() int { return call("PURGE", p.url+"/", "", "Surrogate-Key", "one") },
		func() int {
			return call("POST", p.admin, json, "Content-Type", "application/json", "Authorization", "Bearer secret")
		},
	} {
		if code := purge(); i > 0 && code != http.StatusOK {
			t.Errorf("purge %d: status %d", i, code)
		}
		for range 2 {
			if _, body := get(t, p.url+"/page"); body != fmt.Sprint(i+1) {
				t.Errorf("after purge %d it's page %s", i, body)
			}
		}
	}
	// Through another proxy on this host, for anyone.
	if code := call("PURGE", p.url+"/page", "", "X-Forwarded-For", "203.0.113.6"); code != http.StatusForbidden {
		t.Errorf("a visitor behind a proxy may purge: status %d", code)
	}
	for _, token := range []string{"", "wrong"} {
		if code := call("POST", p.admin, json, "Content-Type", "application/json", "Authorization", "Bearer "+token); code != http.StatusUnauthorized {
			t.Errorf("with the token %q the API answers %d", token, code)
		}
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("the origin was asked %d times", n)
	}
}

// What is on disk outlives the process, large or small, unless it was purged.
func TestDisk(t *testing.T) {
	var asked atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=600")
		size := 100
		if r.URL.Path == "/large" {
			size = 3 << 20
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), size))
	})
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listen.Addr().String() // the same each time: it's in the key
	listen.Close()
	dir := t.TempDir()
	begin := func() *proxy {
		return start(t, o.URL, "-listen", addr, "-disk", dir, "-disk-bytes", "64MiB", "-allow-purge", "127.0.0.1")
	}
	for i, want := range []int64{2, 2, 3} {
		p := begin()
		for _, page := range []string{"/small", "/large"} {
			resp, body := get(t, p.url+page)
			if s := resp.Header.Get(trace.DefaultStatusHeader); i == 1 && s != trace.Hit.String() {
				t.Errorf("%s after a restart: %s", page, s)
			}
			if len(body) != 100 && len(body) != 3<<20 {
				t.Errorf("%s has %d bytes", page, len(body))
			}
		}
		if n := asked.Load(); n != want {
			t.Errorf("process %d: the origin was asked %d times, want %d", i, n, want)
		}
		if i == 1 {
			req, err := http.NewRequestWithContext(t.Context(), "PURGE", p.url+"/large", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		p.end(t)
	}
	if err := run(t.Context(), []string{"-origin", o.URL, "-disk", "/proc/none"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "-disk: ") {
		t.Errorf("a directory that can't be: %v", err)
	}
}

// What is on disk is served as long as the site is the same: the set of origins is, or
// its name.
func TestDiskIsOneSites(t *testing.T) {
	var asked atomic.Int64
	serve := func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=600")
	}
	a, b := newOrigin(t, serve).URL, newOrigin(t, serve).URL
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listen.Addr().String() // the same each time: it's in the key
	listen.Close()
	dir := t.TempDir()
	for i, c := range []struct {
		origins, site string
		want          int64
	}{
		{a + " " + b, "", 1}, {b + " " + a, "", 0}, {a, "", 1},
		{a, "shop", 1}, {a + " " + b, "shop", 0}, {b, "shop", 0}, {b, "blog", 1}, {b, "", 1},
	} {
		args := []string{"-listen", addr, "-disk", dir}
		if c.site != "" {
			args = append(args, "-site", c.site)
		}
		p := start(t, c.origins, args...)
		before := asked.Load()
		get(t, p.url)
		if n := asked.Load() - before; n != c.want {
			t.Errorf("process %d: the origin was asked %d times, want %d", i, n, c.want)
		}
		p.end(t)
	}
}

// Of several origins each gets its share. One that doesn't answer costs no visitor an
// error, and -debug says what was tried.
func TestSeveralOrigins(t *testing.T) {
	var origins []*httptest.Server
	var asked [2]atomic.Int64
	for i := range asked {
		origins = append(origins, newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
			asked[i].Add(1)
			w.Header().Set("Cache-Control", "no-store")
		}))
	}
	p := start(t, origins[0].URL+" "+origins[1].URL, "-policy", "round-robin", "-debug")
	defer p.end(t)
	for range 10 {
		get(t, p.url)
	}
	if a, b := asked[0].Load(), asked[1].Load(); a != 5 || b != 5 {
		t.Errorf("the origins were asked %d and %d times", a, b)
	}
	gone := strings.TrimPrefix(origins[0].URL, "http://")
	origins[0].Close()
	tried := false
	for range 10 {
		resp, _ := get(t, p.url)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got %s", resp.Status)
		}
		trail := resp.Header.Get(trace.HeaderCacheOrigin)
		tried = tried || strings.Contains(trail, `tried="origins/`+gone)
		if want := "chosen=" + strings.TrimPrefix(origins[1].URL, "http://"); !strings.Contains(trail, want) {
			t.Errorf("the trail is %q, want %q in it", trail, want)
		}
	}
	if !tried {
		t.Error("the one that is gone was never tried")
	}
}

// With -health-path an origin that doesn't answer well gets no visitors.
func TestHealthPath(t *testing.T) {
	var visitors atomic.Int64
	sick := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		visitors.Add(1)
	})
	well := newOrigin(t, func(http.ResponseWriter, *http.Request) {})
	p := start(t, sick.URL+" "+well.URL, "-health-path", "/healthz", "-debug")
	defer p.end(t)
	for end := time.Now().Add(20 * time.Second); ; {
		resp, _ := get(t, p.url)
		if strings.Contains(resp.Header.Get(trace.HeaderCacheOrigin), ": unhealthy") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it was never found out")
		}
	}
	before := visitors.Load()
	for range 10 {
		get(t, p.url)
	}
	if n := visitors.Load() - before; n != 0 {
		t.Errorf("the sick origin got %d visitors", n)
	}
}

// The cache's inner workings are for those who asked for them.
func TestNoDebugFieldsByDefault(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") })
	p := start(t, o.URL)
	defer p.end(t)
	resp, _ := get(t, p.url)
	for _, name := range []string{
		trace.HeaderCacheKey, trace.HeaderCacheKeyHash, trace.HeaderCacheReason, trace.HeaderCacheRoute,
	} {
		if v, ok := resp.Header[name]; ok {
			t.Errorf("%s: %q", name, v)
		}
	}
}

// The safe rules keep a cookie's response to one visitor; -rfc asks for the
// letter of RFC 9111, which doesn't.
func TestRFC(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want int64
	}{
		{nil, 2},
		{[]string{"-rfc"}, 1},
	} {
		var asked atomic.Int64
		o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Set-Cookie", "session=1")
		})
		p := start(t, o.URL, tt.args...)
		get(t, p.url)
		get(t, p.url)
		p.end(t)
		if n := asked.Load(); n != tt.want {
			t.Errorf("%q: the origin was asked %d times, want %d", tt.args, n, tt.want)
		}
	}
}

// The origin learns who asked from the proxy, not from the client. A client that
// sends such fields itself isn't served from the cache.
func TestForwardingFieldsAreTheProxysOwn(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Host"))
	})
	p := start(t, o.URL)
	defer p.end(t)
	own := "127.0.0.1 " + strings.TrimPrefix(p.url, "http://")
	for range 2 {
		resp, body := get(t, p.url, "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil.test")
		if s := resp.Header.Get(trace.DefaultStatusHeader); body != own || s != trace.Bypass.String() {
			t.Errorf("%s %q, want %q", s, body, own)
		}
	}
}

// The visitor's coding reaches the origin and comes back as it is.
func TestCodingIsTheVisitors(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["Accept-Encoding"]) })
	p := start(t, o.URL)
	defer p.end(t)
	if _, body := get(t, p.url, "Accept-Encoding", "br"); body != `["br"]` {
		t.Errorf("the origin saw %s", body)
	}
	if _, body := get(t, p.url, "Accept-Encoding", "identity"); body != `["identity"]` {
		t.Errorf("the origin saw %s", body)
	}
}

func TestOriginAway(t *testing.T) {
	o := httptest.NewServer(nil)
	o.Close()
	p := start(t, o.URL)
	defer p.end(t)
	for range 2 {
		if resp, _ := get(t, p.url); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("got %s", resp.Status)
		}
	}
}

// Whoever is being served when the process is told to end gets the whole
// response; nobody new does.
func TestShutdownLetsRequestsEnd(t *testing.T) {
	begun, finish := make(chan bool), make(chan bool)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, "first, ")
		_ = http.NewResponseController(w).Flush()
		begun <- true
		<-finish
		_, _ = io.WriteString(w, "last")
	})
	p := start(t, o.URL)
	got := make(chan string, 1)
	go func() {
		resp, err := client.Get(p.url)
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got <- string(body)
	}()
	<-begun
	p.stop()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			break
		}
		conn.Close()
	}
	close(finish)
	if body := <-got; body != "first, last" {
		t.Errorf("got %q", body)
	}
	p.end(t)
}

// endless answers with what has no end of its own.
func endless(c net.Conn, answer string) {
	defer c.Close()
	br := bufio.NewReader(c)
	if _, err := http.ReadRequest(br); err != nil {
		return
	}
	_, _ = io.WriteString(c, answer)
	_, _ = io.Copy(io.Discard, br)
}

// A WebSocket, which no server waits for, keeps the process from ending neither for long
// nor cleanly; an event stream does for as long as requests may take.
func TestShutdownCutsOffWhatHasNoEnd(t *testing.T) {
	for name, c := range map[string]struct {
		fields, answer string
		within         time.Duration
	}{
		"WebSocket": {
			"Connection: Upgrade\r\nUpgrade: websocket\r\n",
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", requestGrace,
		},
		"event stream": {
			"Accept: text/event-stream\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n", shutdownGrace,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					go endless(conn, c.answer)
				}
			}()
			p := start(t, "http://"+ln.Addr().String())
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n%s\r\n", c.fields)
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			p.end(t)
			if took := time.Since(began); took >= c.within {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestRunErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const origin = "-origin=http://127.0.0.1:3000"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{origin, "-listen", ln.Addr().String()}, "address already in use"},
		{[]string{origin, "-listen", "8080"}, "missing port in address"},
		{[]string{"-listen", "127.0.0.1:0"}, "-origin: is required"},
	} {
		var stdout bytes.Buffer
		err := run(t.Context(), tt.args, &stdout, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
		if stdout.Len() > 0 {
			t.Errorf("%q: says it's ready: %q", tt.args, stdout.String())
		}
	}
}

// command is the command as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// The process itself: ready, serving, and gone with status 0 on SIGTERM.
func TestSIGTERM(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	cmd := command(t, "-listen", "127.0.0.1:0", "-origin", o.URL)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, _, rest := readLine(t, stdout, o.URL)
	if _, body := get(t, url); body != "page" {
		t.Errorf("got %q", body)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	more, err := io.ReadAll(rest)
	if err != nil || len(more) > 0 {
		t.Errorf("it said more: %q, %v", more, err)
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("it ended with %v, %q", err, stderr.String())
	}
}

func TestWrongFlagsExitWithOne(t *testing.T) {
	cmd := command(t, "-origin", "ftp://a")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || string(out) != "reverseproxy: -origin: the scheme of \"ftp://a\" must be http or https\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// No path leaves the one that the origins' URLs have, however it is written.
func TestBasePathIsNotLeft(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	o := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.RequestURI)
	})
	p := start(t, o.URL+"/public")
	defer p.end(t)
	for _, tt := range []struct {
		target, want string // what the origin sees
	}{
		{"/x", "/public/x"},
		{"/a..b/...?q=../..", "/public/a..b/...?q=../.."},
		{"/a%2fb%5cc", "/public/a%2fb%5cc"},
		{"/../private", ""},
		{"/..", ""},
		{"/a/../../private", ""},
		{"/%2e%2e/private", ""},
		{"/.%2E/private", ""},
		{"/..%2fprivate", ""},
		{"/..%5cprivate", ""},
		{"/..\\private", ""},
		{"/%252e%252e/private", ""},
		{"/..;x/private", ""},
		{"http:private", ""},
		{"http://shop.test/../private", ""},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n", tt.target)
		answer, err := io.ReadAll(conn)
		conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		got := strings.Join(seen, " ")
		seen = nil
		mu.Unlock()
		status := "HTTP/1.1 400 "
		if tt.want != "" {
			status = "HTTP/1.1 200 "
		}
		if got != tt.want || !strings.HasPrefix(string(answer), status) {
			t.Errorf("%s: the origin sees %q, the client %.40q", tt.target, got, answer)
		}
	}
}

// Health checks ask below the origins' path too.
func TestHealthPathIsBelowTheBase(t *testing.T) {
	seen := make(chan string, 1)
	o := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case seen <- r.RequestURI:
		default:
		}
	})
	p := start(t, o.URL+"/public/", "-health-path", "/up?x=1")
	defer p.end(t)
	if got := <-seen; got != "/public/up?x=1" {
		t.Errorf("the check asks for %q", got)
	}
}
