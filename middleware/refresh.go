package middleware

import (
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// refresh starts a fetch in the background that replaces a stale response,
// unless one is under way or the last one failed just now. It never waits.
func (x *exchange) refresh(stale *store.Object) {
	if x.r.Method != "GET" {
		return // a HEAD never starts a regeneration
	}
	key := flight.Key{Primary: x.key}
	if stale.Key != stale.Primary {
		key.Variant = stale.Key
	}
	flights := &x.h.flights
	if flights.Remembered(key, laneRefresh, x.now) {
		return
	}
	fl, role := flights.Claim(key, x.lane(), x.now)
	switch role {
	case flight.Leader:
		if now, _ := x.h.store.Get(stale.Key); now == nil || !now.Same(stale) {
			fl.Finish(&head{kind: supplied}) // it has just been replaced, or purged
		} else {
			fl.Background()
			f := x.lead(fl, stale)
			x.hold = f
		}
		fl.Leave(false)
	case flight.Waiter:
		fl.Leave(false)
	case flight.Alone:
		// The key is known as unshareable: nothing to be gained.
	}
	x.rec.ForwardReason = trace.ForwardNone
}
