package guard

import (
	"context"
	"errors"
	"time"
)

// ErrNoGuard is returned for a context that carries no request of a guard.
var ErrNoGuard = errors.New("guard: the context carries no guarded request; derive it from the request's context, behind Guard.WithRequest")

// key is the context key of an *operations.
type key struct{}

// operations is a request as the operations under its context see it.
type operations struct {
	g       *Guard
	request Request
	started int // guarded by g.mu
}

// WithRequest returns a context under which [Do] counts operations against a
// request. It starts the request's count anew, also if ctx carries one already.
func (g *Guard) WithRequest(ctx context.Context, r Request) context.Context {
	if now := g.now(); r.Began.IsZero() || r.Began.After(now) {
		r.Began = now
	}
	return context.WithValue(ctx, key{}, &operations{g: g, request: r})
}

// FromContext returns the request that ctx carries.
func FromContext(ctx context.Context) (Request, bool) {
	o, ok := ctx.Value(key{}).(*operations)
	if !ok {
		return Request{}, false
	}
	return o.request, true
}

// Do runs fn as an expensive operation of the request that ctx belongs to, if the
// request's guard admits it; operation is the name of a route. It counts
//
//   - against the operations that the request may start,
//   - against the age that it may have then,
//   - against the operations that may run at once: in this process, and for its
//     provider or for unknown clients,
//   - and against the rates, as a request of that route does.
//
// It counts against all of them or, if one refuses, against none. It never waits:
// a refusal is a *[RefusedError], which matches [ErrRefused], and fn isn't called.
// If ctx has ended, its error is returned, and nothing counts either.
//
// What fn returns is returned. The operation runs until fn returns, panics or ends
// its goroutine; a panic goes on. That ctx ends meanwhile is for fn to notice.
//
// Several goroutines may call Do under one context, and fn may call Do; each call
// is an operation of its own. A context without a guard is a mistake of the
// program, and is refused with [ErrNoGuard] rather than let pass uncounted.
func Do(ctx context.Context, operation string, fn func(context.Context) error) error {
	o, ok := ctx.Value(key{}).(*operations)
	if !ok {
		return ErrNoGuard
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s, d := o.g.start(o, operation)
	if !d.OK() {
		return d.Err(operation)
	}
	defer o.g.end(s)
	return fn(ctx)
}

// start admits an operation and takes its slots.
func (g *Guard) start(o *operations, name string) (*slots, Decision) {
	g.mu.Lock()
	s, d := g.startLocked(o, name)
	g.mu.Unlock()
	g.reasons[d.Reason].Add(1)
	return s, d
}

func (g *Guard) startLocked(o *operations, name string) (*slots, Decision) {
	st, now := g.state.Load(), g.now()
	d := Decision{Version: st.Version, Expired: st.expired(now)}
	var c *class
	d.As, c = st.who(o.request.Identity, d.Expired)
	to := st.route(name)
	reason, wait := Admitted, time.Duration(0)
	switch {
	case to == nil || name == "":
		reason = NoRoute
	case now.Sub(o.request.Began) > st.contextAge():
		reason = ContextAge
	case o.started >= st.Operations:
		reason = Operations
	default:
		if reason = g.work.room(st.Work, c); reason == Admitted {
			reason, wait = g.debit(o.request, c, to)
		}
	}
	if reason != Admitted {
		d.refuse(reason, wait)
		return nil, d
	}
	s := g.work.of(c)
	o.started++
	g.work.all.used++
	s.used++
	return s, d
}

// end gives back what start took.
func (g *Guard) end(s *slots) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.work.all.used--
	s.used--
}

// Started returns how many operations the request of ctx has started, and how many
// it may start; zeros for a context without a guard.
func Started(ctx context.Context) (started, limit int) {
	o, ok := ctx.Value(key{}).(*operations)
	if !ok {
		return 0, 0
	}
	o.g.mu.Lock()
	defer o.g.mu.Unlock()
	return o.started, o.g.state.Load().Operations
}
