package middleware

import (
	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// refresh starts a fetch in the background that replaces a stale response,
// unless one is under way, the last one failed just now, or the origin has no room
// for it. It never waits.
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
		} else if permit, ok := x.admitRefresh(key); !ok {
			fl.Finish(&head{kind: supplied}) // who joined meanwhile looks again
		} else {
			fl.Background()
			x.hold = x.lead(fl, stale, admission.Background, permit)
		}
		fl.Leave(false)
	case flight.Waiter:
		fl.Leave(false)
	case flight.Alone:
		// The key is known as unshareable: nothing to be gained.
	}
	x.rec.ForwardReason = trace.ForwardNone
}
