package lb

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// The defaults of [WarmUp].
const (
	DefaultWarmUpTimeout     = 30 * time.Second
	DefaultWarmUpConcurrency = 4
)

const (
	maxWarmUpPaths       = 32
	maxWarmUpTimeout     = 10 * time.Minute
	maxWarmUpConcurrency = 64
	warmUpBodyBytes      = 4 << 20 // of each body are read
	firstWarmUpPause     = 10 * time.Second
	maxWarmUpPause       = 5 * time.Minute
)

// WarmUp configures what is asked of an origin before any visitor gets to it, so
// that its caches, connections and compiled code are warm. It is done once for
// each start and each recovery: when the origin is added, put back after
// maintenance, or was unhealthy, and its health check, if there is one, has
// passed. Every path is asked for under each of the pool's host names. The zero
// value is no warm-up.
//
// An answer other than 2xx or 3xx, or a longer time than Timeout, keeps the origin
// out. Another try follows with the next check that passes after a pause of 10 s,
// then 20 s, and so on up to 5 min; without health checks right after the pause.
type WarmUp struct {
	// Paths are asked for with GET, up to 32, each with or without query and
	// beginning with "/".
	Paths []string
	// Header is sent too, such as X-Forwarded-Proto. It can't hold Host.
	Header http.Header
	// Timeout is for all of an origin's requests together; up to 10 min. 0 means
	// [DefaultWarmUpTimeout].
	Timeout time.Duration
	// Concurrency is how many of an origin's requests run at once, up to 64. 0
	// means [DefaultWarmUpConcurrency].
	Concurrency int
}

func (w WarmUp) on() bool { return len(w.Paths) > 0 }

func (w WarmUp) withDefaults() WarmUp {
	setDefault(&w.Timeout, DefaultWarmUpTimeout)
	setDefault(&w.Concurrency, DefaultWarmUpConcurrency)
	w.Paths = slices.Clone(w.Paths)
	w.Header = w.Header.Clone()
	return w
}

// validate reports all that is wrong; place is such as "Pools[0].WarmUp.".
func (w WarmUp) validate(place string) []error {
	c := problems{place: place}
	if len(w.Paths) == 0 && (w.Timeout != 0 || w.Concurrency != 0 || len(w.Header) > 0) {
		c.bad("Paths", w.Paths, `must not be empty, since the other settings have no effect without it; "/" asks for the home page`)
	}
	if len(w.Paths) > maxWarmUpPaths {
		c.bad("Paths", len(w.Paths), fmt.Sprintf("must be %d at most; keep those that matter most", maxWarmUpPaths))
	}
	for i, p := range w.Paths[:min(len(w.Paths), maxWarmUpPaths)] {
		c.target(fmt.Sprintf("Paths[%d]", i), p)
	}
	c.header("Header", w.Header)
	c.within("Timeout", w.Timeout, 0, maxWarmUpTimeout, "leave it 0 for 30 s")
	c.between("Concurrency", w.Concurrency, 0, maxWarmUpConcurrency, "leave it 0 for 4")
	return c.list
}

// warming is how far an origin's warm-up is.
type warming struct {
	pending   bool // the origin is kept out by it
	running   bool
	failures  int           // in a row
	notBefore time.Duration // when the next try may begin
}

// want begins a start or a recovery.
func (w *warming) want(on bool) { *w = warming{pending: on} }

// end takes the result of a try in.
func (w *warming) end(ok bool, now time.Duration) {
	if ok {
		*w = warming{}
		return
	}
	w.running = false
	w.notBefore = now + min(firstWarmUpPause<<min(w.failures, 16), maxWarmUpPause)
	w.failures++
}
