package admission

import (
	"fmt"
	"math"
	"time"
)

// Adaptive lets a limiter's global ceiling follow what the origin can take,
// between Min and Options.Limit. It looks at how long the origin takes to its
// first byte, and at failures: see [Permit.FirstByte], [Permit.Answered] and
// [Permit.Failed]. Without those it changes nothing, but for a tenth upwards in each
// minute in which requests come and none is admitted.
//
// A permit counts against it until ten to twenty times the typical time to the first
// byte have passed since it told one of these, at least a second and at most two
// minutes. From then on it counts against Options.Limit only, since it may wait for
// nothing but its client: an event stream, say.
//
// It suits work that is much alike. Where quick and slow requests share a limiter,
// and their mix changes, the change looks like one of the origin.
type Adaptive struct {
	// Min is the lowest the ceiling gets. It must be above the sum of the
	// reserves, and below Options.Limit. 0 means a tenth of what Limit is above
	// that sum, at least 1, on top of it.
	Min int
	// Start is the ceiling at first, from Min to Options.Limit. 0 means the middle
	// between them. Finding the way down from ten times too much can take half a
	// minute, the way up from a tenth ten seconds.
	Start int
}

// resolve fills in the defaults and checks; o has its own.
func (a *Adaptive) resolve(c *checker, o Options) *adapting {
	reserved := o.ReserveCritical + o.ReserveNormal
	low, start := a.Min, a.Start
	if low == 0 {
		low = reserved + max((o.Limit-reserved)/10, 1)
	}
	if low <= reserved || low >= o.Limit {
		c.bad("Adaptive.Min", low, fmt.Sprintf("must be above the sum of the reserves (%d), or background requests might never run, and below Limit (%d), or nothing would adapt; change it or Limit", reserved, o.Limit))
		return nil
	}
	if start == 0 {
		start = low + (o.Limit-low)/2
	}
	if start < low || start > o.Limit {
		c.bad("Adaptive.Start", start, fmt.Sprintf("must be between Min (%d) and Limit (%d); leave it 0 for the middle", low, o.Limit))
	}
	return &adapting{low: float64(low), high: float64(o.Limit), limit: float64(start)}
}

// adapting is a ceiling and what it was learnt from. With no more than what it
// takes of the origin at its best (Little's law), a ceiling of L has
// L × (1 - best/now) requests too many, which is what the origin queues. Few of
// those show that it is busy; more only make everyone wait, and an origin that
// breaks down under load do less (TCP Vegas).
type adapting struct {
	low, high float64
	limit     float64
	last      float64 // typical time to the first byte, in ns
	best      float64 // the same when the origin isn't overloaded; 0: unknown

	// Whether best is still the best shows only with less load. So from time to
	// time a ceiling that is in use comes down a step, and further as long as that
	// makes the origin quicker; else it goes back at once.
	probing bool
	before  float64 // typical time before the step
	busy    int     // windows in use since the last probe
	pause   int     // so many are to pass before the next; at first none
}

// How a ceiling moves.
const (
	adaptGrow  = 10  // by a tenth and one
	adaptFail  = 0.9 // to this part, when requests fail
	adaptLeast = 0.5 // to no less than this part in one step
	// Failures matter from one in twenty on: single ones always happen.
	adaptFailures = 20

	adaptProbe     = 0.8  // to this part, to see whether it helps
	adaptHelps     = 0.85 // it does if the time comes down to this part
	adaptPause     = 16   // windows before the next one if it did,
	adaptPauseMost = 64   // else twice as many as before, up to these
)

// step returns the ceiling after a window.
func (a adapting) step(w *window) adapting {
	busy := w.wanted || float64(w.peak) > a.limit/2
	if w.all() < adaptFew {
		return a.guess(w, busy)
	}
	if w.failed*adaptFailures >= w.all() && w.failed > 0 {
		a.limit, a.probing, a.busy, a.pause = max(a.low, a.limit*adaptFail), false, 0, adaptPause
		return a
	}
	if w.seen < adaptFew {
		return a.guess(w, busy)
	}
	typical := max(w.median(), 1)
	a.last = typical
	if a.probing {
		return a.probed(typical)
	}
	if busy {
		a.busy++
	}
	a.learn(typical, busy)
	few, many := a.band()
	queued := a.queued(typical)
	switch {
	case queued > many:
		a.limit = max(a.low, a.limit*adaptLeast, a.limit-max(1, (queued-few)/2))
	case busy && a.busy > a.pause && a.limit > a.low:
		a.probing, a.before = true, typical
		a.limit = max(a.low, a.limit*adaptProbe)
	case busy && queued < few:
		a.grow()
	}
	return a
}

func (a *adapting) grow() { a.limit = min(a.high, a.limit+a.limit/adaptGrow+1) }

// queued is how many of the ceiling's requests the origin queues.
func (a *adapting) queued(typical float64) float64 {
	return a.limit * (1 - a.best/max(typical, a.best))
}

// guess returns the ceiling after a window that says next to nothing about the origin's
// times. What is in the way of requests has to move all the same, or it never would:
// so it grows, unless something speaks against that.
func (a adapting) guess(w *window, busy bool) adapting {
	few, _ := a.band()
	switch {
	case !busy || w.failed > 0 && w.all() < adaptFew:
	case w.all() == 0 && (w.begun || !w.wanted):
		// Who came left without a word: the origin may be slower than anyone waits
		// for. Only if nobody was admitted do those who were before fill the ceiling.
	case a.probing:
		a.probing, a.busy, a.limit = false, 0, min(a.high, a.limit/adaptProbe)
	case w.seen > 0 && a.best > 0 && a.queued(w.median()) >= few:
	default:
		a.grow()
	}
	return a
}

// probed goes on with a probe, or ends it.
func (a adapting) probed(typical float64) adapting {
	helped := typical <= a.before*adaptHelps
	if helped {
		a.best, a.before = min(a.best, typical), typical
		a.pause = adaptPause
		if a.limit > a.low {
			a.limit = max(a.low, a.limit*adaptProbe)
			return a
		}
	}
	a.probing, a.busy = false, 0
	if !helped {
		// So nothing was queued, and this is how fast the origin is.
		a.best += (min(typical, a.before) - a.best) / 2
		a.limit = min(a.high, a.limit/adaptProbe)
		a.pause = min(max(2*a.pause, 1), adaptPauseMost)
	}
	return a
}

// band is from how few queued requests on the ceiling may grow, and from how many
// on it shrinks. For large ceilings it is a part of them, since times vary anyway.
func (a *adapting) band() (few, many float64) {
	magnitude := max(math.Log10(a.limit), 1)
	return max(3*magnitude, a.limit/10), max(6*magnitude, a.limit/4)
}

// learn takes the typical time of a window into account. A shorter one is believed
// soon. A longer one is not while the limiter's own requests may be the cause of
// it, unless there can't be fewer: so an origin that came to be slower is found
// out at the lowest ceiling, and nothing drifts up under load.
func (a *adapting) learn(typical float64, busy bool) {
	switch {
	case a.best == 0:
		a.best = typical
	case typical < a.best:
		a.best += (typical - a.best) / 2
	case !busy || a.limit <= a.low:
		a.best += (typical - a.best) / 8
	}
}

// How long a window is.
const (
	adaptWindow  = 250 * time.Millisecond // at least, and twice the typical time,
	adaptLongest = 5 * time.Second        // but no longer than this for that,
	adaptSamples = 50                     // and these many samples,
	adaptPatient = 5 * time.Second        // or after this
	adaptFew     = 10                     // these will do
	adaptOverdue = time.Minute            // a window that isn't full by then is judged as it is
)

// ripe reports whether a window is over. If it were short beside the time to the first
// byte, quick answers would be most of it.
func (a *adapting) ripe(w *window, now int64) bool {
	elapsed := time.Duration(now - w.since)
	least := max(adaptWindow, time.Duration(min(2*a.last, float64(adaptLongest))))
	switch {
	case elapsed >= least && w.seen+w.failed >= adaptSamples, elapsed >= max(least, adaptPatient) && w.all() >= adaptFew:
		return true
	}
	return elapsed >= adaptOverdue
}
