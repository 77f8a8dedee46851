package lb

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// ward is the health of a pool whose time the test sets. It runs no checks and no
// warm-ups by itself: the test says how they ended.
type ward struct {
	*health
	time  time.Duration
	cfg   healthConfig
	beds  []member
	conds []*condition
	logs  *logLines
}

// newWard returns one with n origins, "0", "1" and so on.
func newWard(t testing.TB, cfg healthConfig, n int) *ward {
	w := &ward{logs: &logLines{}}
	cfg.pool, cfg.log = "main", w.logs.logger()
	w.cfg = cfg
	w.health = newHealth(func() time.Duration { return w.time })
	w.health.checker.closed = true
	for i := range n {
		w.beds = append(w.beds, member{id: fmt.Sprint(i), inRotation: true, base: &url.URL{Scheme: "http", Host: fmt.Sprintf("192.0.2.%d:80", i)}})
	}
	w.refresh()
	t.Cleanup(func() { w.close(t.Context()) })
	return w
}

func (w *ward) refresh() { w.conds = w.update(w.cfg, w.beds) }

// ask has one request to origin i come to an end of that kind.
func (w *ward) ask(i int, kind outcomeKind) State {
	token, s := w.conds[i].begin(w.time)
	w.conds[i].report(token, outcome{kind: kind}, w.time)
	return s
}

func (w *ward) failTimes(i, n int) {
	for range n {
		w.ask(i, failed)
	}
}

// states are those of all origins.
func (w *ward) states() []State {
	var all []State
	for _, c := range w.conds {
		s, _ := c.state(w.time)
		all = append(all, s)
	}
	return all
}

func (w *ward) share(i int) int {
	_, share := w.conds[i].state(w.time)
	return share
}

// logLines keeps what is logged, without times.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// take returns the lines since the last call.
func (l *logLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(l.buf.String(), "\n"), "\n")
	l.buf.Reset()
	if lines[0] == "" {
		return nil
	}
	return lines
}
