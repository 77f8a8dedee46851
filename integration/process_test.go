package integration

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait for a process. It's for broken code: nothing
// takes nearly as long when all is well.
const patience = 20 * time.Second

// process is a program that a test started.
type process struct {
	cmd    *exec.Cmd
	first  string // the first line it printed
	ended  chan struct{}
	stderr lockedBuffer
	stdin  io.Closer
}

// start runs a program and, if it's to announce itself, waits for the first
// line that it prints. It's ended with the test.
func start(t *testing.T, announces bool, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // or each race-checked exit takes a second
	// A program that hears nothing more from the tests ends: they may be killed.
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	line := make(chan string, 1)
	go func() {
		defer close(p.ended)
		r := bufio.NewReader(stdout)
		s, _ := r.ReadString('\n')
		line <- strings.TrimSpace(s)
		_, _ = io.Copy(io.Discard, r)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() { p.stop(t) })
	if announces {
		select {
		case p.first = <-line:
			require.NotEmpty(t, p.first, "%s ended at once: %s", name, &p.stderr)
		case <-time.After(patience):
			t.Fatalf("%s didn't start: %s", name, &p.stderr)
		}
	}
	return p
}

// stop ends the process gently, or fails the test. Stopping twice is fine.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	// nginx without a master misses a signal that comes just before it sleeps.
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for told := false; !told; {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			return
		case <-again.C:
		case <-late:
			told = true
		}
	}
	// Says where it hangs, if it's written in Go.
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	t.Errorf("%s didn't end when told to:\n%.20000s", p.cmd.Path, &p.stderr)
}

// lockedBuffer collects what a process says.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// proxy is a running example proxy.
type proxy struct {
	*process
	url  string // without a slash at the end
	addr string
}

// startProxy runs the example proxy in front of an origin. When the test ends
// the proxy must shut down cleanly, without having panicked meanwhile. A data
// race makes its exit code 66.
func startProxy(t *testing.T, origin string, args ...string) *proxy {
	t.Helper()
	p := start(t, true, proxyBinary, append([]string{"-listen", "127.0.0.1:0", "-origin", origin}, args...)...)
	_, rest, found := strings.Cut(p.first, "listening on ")
	require.True(t, found, "the proxy said %q", p.first)
	url, _, _ := strings.Cut(rest, ",")
	t.Cleanup(func() {
		p.stop(t)
		assert.Equal(t, 0, p.cmd.ProcessState.ExitCode(), "the proxy's exit code; it said:\n%.20000s", &p.stderr)
		assert.NotContains(t, p.stderr.String(), "panic:")
		assert.NotContains(t, p.stderr.String(), "panicked")
	})
	return &proxy{p, url, strings.TrimPrefix(url, "http://")}
}

// profiles are the sets of rules that the example proxy can run with.
var profiles = map[string][]string{"default": nil, "rfc": {"-rfc"}}

// inProfiles runs a test with each of them.
func inProfiles(t *testing.T, f func(t *testing.T, args []string)) {
	for name, args := range profiles {
		t.Run(name, func(t *testing.T) { f(t, args) })
	}
}

// eventually polls a condition that other processes bring about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}
