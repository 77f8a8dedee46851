package middleware

import (
	"context"

	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// balanced returns ctx with what a balancer behind the wrapped handler may go by: the
// key and the client's address. It says in the trail what it did.
func (x *exchange) balanced(ctx context.Context, key store.Key) (context.Context, *lb.Trail) {
	cfg := &x.h.cfg.Options
	return lb.WithRequest(ctx, key, clientAddr(x.r, cfg.TrustedProxies, cfg.Admission.ClientField))
}

// unanswered reports whether a balancer got no response from any origin: what the
// handler answers then is its own, and the origin is away (RFC 9111 §4.2.4).
func unanswered(t *lb.Trail) (is bool) {
	if t != nil {
		t.Read(func(r *lb.Record) { is = r.Unanswered() })
	}
	return is
}

// noteOrigins brings what balancers did into the record, as far as it's known.
func (x *exchange) noteOrigins() {
	if x.trail != nil {
		x.trail.Read(func(t *lb.Record) { noteOrigins(x.rec, t) })
	}
}

func noteOrigins(rec *trace.Record, t *lb.Record) {
	if t.Host == "" {
		return // none saw the request
	}
	o := &rec.Origin
	*o = trace.Origin{
		Pool: t.Pool, Policy: string(t.Policy), Panic: t.Panic,
		Skipped: o.Skipped[:0], Attempts: o.Attempts[:0],
	}
	if !t.Unanswered() {
		o.Chosen = t.Origin
	}
	for i := range t.Origins {
		if s := &t.Origins[i]; !s.Used && s.State != lb.StateHealthy {
			o.Skipped = append(o.Skipped, trace.Skip{Name: s.Pool + "/" + s.Origin, Reason: s.State.String()})
		}
	}
	for i := range t.Attempts {
		a := &t.Attempts[i]
		o.Attempts = append(o.Attempts, trace.Attempt{
			Origin: a.Pool + "/" + a.Origin, Status: a.Status, Err: a.Error,
			Start: a.Start.Sub(rec.Start), HeadAfter: a.FirstByte, Duration: a.Total,
		})
	}
}
