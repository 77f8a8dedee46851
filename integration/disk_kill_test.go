package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// killing is a run of proxies that are killed one after the other, on the same
// directory and port.
type killing struct {
	t      *testing.T
	origin *versioned
	addr   string
	url    string
	args   []string
	client *http.Client
	tokens http.Header // what the purge API asks for

	purges, refused, fromDisk, hits atomic.Int64
	failed                          atomic.Bool
}

// victim is one of the proxies.
type victim struct {
	cmd    *exec.Cmd
	stderr lockedBuffer
	ready  chan struct{}          // closed when it has said where it listens, or has ended
	admin  atomic.Pointer[string] // the purge API's URL, when ready
	gone   chan struct{}
}

func newKilling(t *testing.T) *killing {
	addr := "127.0.0.1:" + freePort(t)
	k := &killing{t: t, origin: startVersioned(t, 24), addr: addr, url: "http://" + addr}
	k.args = []string{
		"-listen", addr, "-origin", k.origin.url, "-memory", "4MiB", "-disk", t.TempDir(), "-disk-bytes", "64MiB",
		"-tag-header", "Surrogate-Key", "-allow-purge", "127.0.0.1", "-admin", "127.0.0.1:0", "-admin-token", "secret",
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	k.client = &http.Client{Transport: transport, Timeout: patience}
	k.tokens = http.Header{"Authorization": {"Bearer secret"}, "Content-Type": {"application/json"}}
	return k
}

// errorf fails the test, and ends the loop of kills.
func (k *killing) errorf(format string, args ...any) {
	k.failed.Store(true)
	k.t.Errorf(format, args...)
}

var adminURL = regexp.MustCompile(`purge API on (http://\S+)`)

func (k *killing) start() *victim {
	v := &victim{cmd: exec.Command(proxyBinary, k.args...), ready: make(chan struct{}), gone: make(chan struct{})}
	v.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	v.cmd.Stderr = &v.stderr
	stdout, err := v.cmd.StdoutPipe()
	require.NoError(k.t, err)
	require.NoError(k.t, v.cmd.Start())
	go func() {
		defer close(v.gone)
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		if m := adminURL.FindStringSubmatch(line); m != nil {
			v.admin.Store(&m[1])
		}
		close(v.ready)
		_, _ = io.Copy(io.Discard, r)
		_ = v.cmd.Wait()
	}()
	k.t.Cleanup(func() { // whatever fails, none is left
		_ = v.cmd.Process.Kill()
		<-v.gone
	})
	return v
}

// startReady starts until one listens: somebody's connection may have the port for
// a moment.
func (k *killing) startReady() *victim {
	for end := time.Now().Add(patience); ; {
		v := k.start()
		select {
		case <-v.ready:
		case <-time.After(patience):
			k.t.Fatalf("the proxy didn't start: %s", &v.stderr)
		}
		if v.admin.Load() != nil {
			return v
		}
		<-v.gone
		if !strings.Contains(v.stderr.String(), "address already in use") || time.Now().After(end) {
			k.t.Fatalf("the proxy ended at once: %s", &v.stderr)
		}
	}
}

// kill ends the process, and looks at what it has said.
func (k *killing) kill(v *victim, first bool) {
	_ = v.cmd.Process.Kill()
	<-v.gone
	for _, bad := range []string{"panic", "DATA RACE", "can't be trusted", "counts as purged", "switched off", "can't be written"} {
		if s := v.stderr.String(); strings.Contains(s, bad) && (!first || bad != "counts as purged") {
			k.errorf("a killed process said %q:\n%.5000s", bad, s)
		}
	}
}

// get asks for one page, and says whether it was a hit.
func (k *killing) get(r *rand.Rand, p *versionedPage) bool {
	var header []string
	if r.IntN(6) == 0 {
		from := r.IntN(p.size)
		header = []string{"Range", fmt.Sprintf("bytes=%d-%d", from, from+r.IntN(p.size-from))}
	}
	status, err := p.get(k.client, k.url, header...)
	if err != nil {
		k.errorf("%v", err)
	}
	if status == "HIT" {
		k.hits.Add(1)
	}
	return status == "HIT"
}

// purge changes pages at the origin and purges them. If the proxy says that the
// purge is durable, what was before must not be seen any more, by anybody, ever.
func (k *killing) purge(r *rand.Rand, v *victim) {
	p := k.origin.pages[r.IntN(len(k.origin.pages))]
	matches := func(q *versionedPage) bool { return p == q }
	url, header, selector := k.url+p.path, http.Header{}, map[string]any{"kind": "url", "host": versionedHost, "path": p.path}
	switch r.IntN(8) {
	case 0:
		matches = func(q *versionedPage) bool { return q.tag == p.tag }
		header.Set("Surrogate-Key", p.tag)
		selector = map[string]any{"kind": "tag", "tag": p.tag}
	case 1:
		prefix := p.path[:len("/a/")]
		matches = func(q *versionedPage) bool { return strings.HasPrefix(q.path, prefix) }
		url = k.url + prefix
		header.Set("Weir-Purge", "prefix")
		selector = map[string]any{"kind": "prefix", "host": versionedHost, "path": prefix}
	}
	// Softly purged pages are asked of the origin again before they're served: it's
	// there, and they have no time in which stale ones may be.
	if r.IntN(4) == 0 {
		header.Add("Weir-Purge", "soft")
		selector["soft"] = true
	}
	bumped := map[*versionedPage]int64{}
	for _, q := range k.origin.pages {
		if matches(q) {
			bumped[q] = q.version.Add(1)
		}
	}
	if !k.sendPurge(v, r.IntN(2) == 0, url, header, selector) {
		k.refused.Add(1)
		return
	}
	k.purges.Add(1)
	for q, version := range bumped {
		q.raise(version)
	}
}

// sendPurge purges by the API or the PURGE method and reports whether that was
// acknowledged as durable.
func (k *killing) sendPurge(v *victim, api bool, url string, header http.Header, selector map[string]any) bool {
	method, body := "PURGE", ""
	if admin := v.admin.Load(); api && admin != nil {
		b, err := json.Marshal(map[string]any{"purge": []any{selector}})
		if err != nil {
			k.errorf("%v", err)
			return false
		}
		method, url, body, header = http.MethodPost, *admin, string(b), k.tokens
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		k.errorf("%v", err)
		return false
	}
	req.Header, req.Host = header, versionedHost
	resp, err := k.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return false
	}
	var said struct {
		Applied int
		Durable bool
	}
	if err := json.Unmarshal(text, &said); err != nil || resp.StatusCode != http.StatusOK || said.Applied != 1 || !said.Durable {
		k.errorf("%s %s: %d %s", method, url, resp.StatusCode, text)
		return false
	}
	return true
}

// rush has clients do all sorts of things at once until the process is killed,
// which happens after some number of them while the others go on.
func (k *killing) rush(r *rand.Rand, v *victim, ops int64) {
	var done atomic.Int64
	var killed atomic.Bool
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		wg.Go(func() {
			for !killed.Load() {
				if own.IntN(4) == 0 {
					k.purge(own, v)
				} else {
					k.get(own, k.origin.pages[own.IntN(len(k.origin.pages))])
				}
				if done.Add(1) == ops {
					close(enough)
				}
				runtime.Gosched()
			}
		})
	}
	select {
	case <-enough:
	case <-v.gone:
		// Nobody has killed it yet.
		k.errorf("the process ended by itself: %v\n%.5000s", v.cmd.ProcessState, &v.stderr)
	case <-time.After(patience):
		k.errorf("only %d of %d operations in %v", done.Load(), ops, patience)
	}
	_ = v.cmd.Process.Kill()
	<-v.gone
	killed.Store(true)
	wg.Wait()
}

// dialUntil knocks at the port some times, and kills the process wherever its start
// has got to by then.
func (k *killing) dialUntil(knocks int) {
	for range knocks {
		if conn, err := net.Dial("tcp", k.addr); err == nil {
			_ = conn.Close()
		}
	}
}

// look asks for some pages, one after the other: what isn't asked of the origin is
// from the disk.
func (k *killing) look(r *rand.Rand, most int) {
	pages := r.Perm(len(k.origin.pages))
	for _, i := range pages[:r.IntN(most+1)] {
		if k.get(r, k.origin.pages[i]) {
			k.fromDisk.Add(1)
		}
	}
}

// The proxy is killed again and again, at its start, while it serves, stores and
// purges. Whatever the instant: nobody gets wrong bytes or too few without noticing,
// nothing comes back whose purge was acknowledged, and the rest is still there.
func TestDiskKilled(t *testing.T) {
	most, budget := 400, 12*time.Second
	if testing.Short() {
		most, budget = 60, 5*time.Second
	}
	least := 30
	if testnet.Race { // a start takes a second on a busy machine
		least = 10
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	k := newKilling(t)
	began, kills, early := time.Now(), 0, 0
	for ; kills < most && (kills < least || time.Since(began) < budget) && !k.failed.Load(); kills++ {
		if kills > 0 && r.IntN(5) == 0 {
			v := k.start()
			k.dialUntil(r.IntN(400))
			k.kill(v, false)
			early++
			continue
		}
		v := k.startReady()
		k.look(r, 8)
		k.rush(r, v, 1+r.Int64N(40))
		k.kill(v, kills == 0)
		k.client.CloseIdleConnections()
	}
	k.end(t)
	t.Logf("%d kills in %v, %d of them early; %d purges acknowledged, %d not; %d hits, %d of them the first after a restart; %d requests at the origin",
		kills, time.Since(began).Round(time.Millisecond), early, k.purges.Load(), k.refused.Load(), k.hits.Load(), k.fromDisk.Load(), k.origin.asked.Load())
	assert.GreaterOrEqual(t, kills, least)
	assert.NotZero(t, k.purges.Load(), "purges acknowledged")
	assert.NotZero(t, k.fromDisk.Load(), "hits from the disk")
}

// end looks at all pages in a last process, which ends as it should.
func (k *killing) end(t *testing.T) {
	v := k.startReady()
	for _, p := range k.origin.pages {
		for range 2 {
			status, err := p.get(k.client, k.url)
			assert.NoError(t, err)
			assert.NotEmpty(t, status, "no answer for %s", p.path)
		}
	}
	k.client.CloseIdleConnections()
	require.NoError(t, v.cmd.Process.Signal(os.Interrupt))
	select {
	case <-v.gone:
		assert.Equal(t, 0, v.cmd.ProcessState.ExitCode(), "%.5000s", &v.stderr)
	case <-time.After(patience):
		t.Errorf("the proxy doesn't end: %.5000s", &v.stderr)
	}
}
