package middleware

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// maxRounds bounds how often a request looks again because what it waited for
// turned out not to be for it. Then it fetches for itself.
const maxRounds = 4

// attendance is a request's part in a fetch: it leads it, or waits for it.
type attendance struct {
	flight  *flight.Flight[*head]
	fetch   *fetch // the leader's
	class   admission.Class
	stale   bool // there was a stale response
	reader  *store.Reader
	arrived bool
}

// claim joins the fetch for the key or starts one.
func (x *exchange) claim(f *found, v *verdict) attendance {
	x.rec.ForwardReason, x.rec.Cache.Reason = v.forward, string(v.reason)
	a := attendance{stale: f.object != nil}
	if x.h.limiter() != nil {
		a.class = x.class() // a function of the application: before anything is taken
	}
	role := flight.Alone
	if !x.alone {
		a.flight, role = x.h.flights.Claim(f.claim, x.lane(), x.now)
	}
	switch role {
	case flight.Waiter:
		a.flight.Raise(urgency(a.class))
		return a
	case flight.Alone:
		a.flight = x.h.flights.Solo(f.claim, x.lane())
	}
	// From here on a purge finds the flight. What is stored may have been purged
	// or replaced since the lookup: another leader may have come and gone.
	again := x.lookup()
	if again.object != f.object && role == flight.Leader && x.judge(&again).act == serveStored {
		a.flight.Finish(&head{kind: supplied}) // whoever waits looks again, as x does
		return a
	}
	f.object = again.object
	a.fetch = x.lead(a.flight, f.object, a.class, admission.Permit{})
	x.hold, x.trail = a.fetch, a.fetch.trail
	x.rec.Cache.Dropped = append(x.rec.Cache.Dropped, a.fetch.dropped...)
	return a
}

// lead starts the fetch of a flight, which gets its permit itself, in class c, if it
// has none. Should a function of the application that is part of the key rules panic,
// nobody waits for a fetch that never began.
func (x *exchange) lead(fl *flight.Flight[*head], stale *store.Object, c admission.Class, p admission.Permit) *fetch {
	started := false
	defer func() {
		if !started {
			p.Release()
			fl.Finish(&head{kind: failed, errStatus: http.StatusBadGateway, reason: whyNoAnswer})
			fl.Leave(false)
		}
	}()
	f := x.h.newFetch(x, fl, stale)
	f.class, f.permit = c, p
	if l := x.h.limiter(); l != nil && p == (admission.Permit{}) {
		f.claim = l.Claim(x.wants(c))
	}
	f.start()
	started = true
	return f
}

// attend waits for the fetch's decision. It returns the head that x is to be
// answered with, or nil if x is to look again.
func (a *attendance) attend(x *exchange) *head {
	if a.fetch == nil {
		return a.wait(x)
	}
	for {
		select {
		case <-a.flight.Decided():
			_, hd := a.flight.Result()
			x.rec.Admission = a.fetch.admission
			if !a.arrive(hd) {
				// Only a client that took no interim response for so long that it
				// was cut off.
				x.abort(trace.ClientGone)
			}
			a.sendInterims(x)
			return hd
		case in := <-a.fetch.interims:
			in.send(x)
		case <-x.r.Context().Done():
			return x.gone()
		}
	}
}

// sendInterims sends the interim responses that came before the decision.
func (a *attendance) sendInterims(x *exchange) {
	for {
		select {
		case in := <-a.fetch.interims:
			in.send(x)
		default:
			return
		}
	}
}

// wait is attend for one who doesn't lead.
func (a *attendance) wait(x *exchange) *head {
	x.rec.Cache.Collapsed = true
	timer := time.NewTimer(x.h.cfg.WaitTimeout)
	defer timer.Stop()
	select {
	case <-a.flight.Decided():
	case <-timer.C: // slow beats stuck
		x.alone, x.now = true, time.Now()
		return nil
	case <-x.r.Context().Done():
		return x.gone()
	}
	v, hd := a.flight.Result()
	switch {
	case hd.kind == turnedAway && a.class.Outranks(hd.class):
		// It asks for itself: what it may have, or how long it may wait for that, is
		// more than the fetch had from the start. Nobody can join that any more.
	case v != flight.Shared:
		x.learn(a.flight, hd)
	case x.accepts(a.flight, hd):
		if a.arrive(hd) {
			return hd
		}
		a.flight.CloseToWaiters() // its first bytes are gone
	}
	x.looked()
	return nil
}

// arrive takes a reader of the body. It fails if the beginning isn't there any
// more.
func (a *attendance) arrive(hd *head) (ok bool) {
	ok = true
	if hd.fill != nil {
		a.reader, ok = hd.fill.Reader(0)
	}
	a.flight.Arrive()
	a.arrived = true
	return ok
}

// leave ends the attendance.
func (a *attendance) leave() {
	if a.reader != nil {
		a.reader.Close()
	}
	a.flight.Leave(a.arrived)
}

// looked counts the rounds.
func (x *exchange) looked() {
	x.now = time.Now()
	if x.rounds++; x.rounds >= maxRounds {
		x.alone = true
	}
}

// accepts decides whether the shared response is for x, which waited for it or
// came while its body was arriving.
func (x *exchange) accepts(f *flight.Flight[*head], hd *head) bool {
	if hd.kind == turnedAway {
		return true
	}
	if hd.kind == staleError {
		// Purged between its choice and the closing to waiters.
		return x.h.verdict(hd.object) != purge.Gone && x.mayShare(&hd.object.Life)
	}
	if hd.subject.Seq() < x.seq && x.h.purges.list.Check(hd.subject) != purge.Valid {
		f.CloseToWaiters() // purged before x came, softly perhaps: then it is stale
		return false
	}
	names, life := hd.decision.VaryNames, &hd.decision.Life
	if len(names) > 0 && !x.selects(names, hd.selecting) {
		x.variesBy = names // claim the variant next
		return false
	}
	if !x.mayShare(life) {
		x.alone = true
		return false
	}
	if hd.receivedAt.Before(x.now) {
		// It came before x did, so it's judged like a stored response.
		j := rfc9111.Judge(life, x.asked, &x.route.policy, x.now)
		if j.Use != rfc9111.UseFresh && j.Use != rfc9111.UseStale {
			f.CloseToWaiters()
			return false
		}
	}
	return true
}

// learn takes note of why a fetch wasn't for its waiters.
func (x *exchange) learn(f *flight.Flight[*head], hd *head) {
	switch {
	case hd.kind == supplied:
	case f.Lane() != x.lane():
		// Another lane's answer: one of this lane leads next.
	default:
		x.alone = true
	}
}

// gone ends a request whose context is over. If the client is still there (a
// deadline set by an outer handler), it must not take silence for success.
func (x *exchange) gone() *head {
	if errors.Is(x.r.Context().Err(), context.DeadlineExceeded) {
		return &head{kind: failed, errStatus: http.StatusGatewayTimeout, reason: whyGaveUp}
	}
	x.rec.Outcome = trace.ClientGone
	return &head{kind: failed, errStatus: http.StatusServiceUnavailable, reason: whyGaveUp}
}
