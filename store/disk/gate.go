package disk

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// How long a gate stays shut: the first time, and at most.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// gate keeps requests away from a disk that fails. A fault shuts it for a
// second, the next one for two and so on up to a minute. Faults with less than
// a minute of peace between them are one episode, told in the log once.
type gate struct {
	what  string // "reading from" or "writing to"
	dir   string
	log   *slog.Logger
	start time.Time

	until    atomic.Int64 // shut until then, since start; 0 if there's no episode
	episodes atomic.Int64

	mu    sync.Mutex
	pause time.Duration
}

func (g *gate) now() time.Duration { return time.Since(g.start) }

// open reports whether requests may pass.
func (g *gate) open() bool {
	until := g.until.Load()
	return until == 0 || int64(g.now()) >= until
}

// shut says that an operation failed.
func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, until := g.now(), time.Duration(g.until.Load())
	switch {
	case until != 0 && now < until:
		return // another request's, of the same moment
	case until != 0 && now < until+lastPause:
		g.pause = min(2*g.pause, lastPause)
		g.until.Store(int64(now + g.pause))
		return
	}
	g.pause = firstPause
	g.until.Store(int64(now + g.pause))
	g.episodes.Add(1)
	g.log.Error("disk cache switched off for a while, requests go on without it; it tries again by itself",
		"cannot", g.what, "dir", g.dir, "error", err, "first_retry_in", firstPause)
}
