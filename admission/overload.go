package admission

import (
	"sync"
	"time"
)

// Sender says whose a request is. It must come from code that the operator
// trusts.
type Sender uint8

// The senders, in the order in which they are shed.
const (
	FromUnknown  Sender = iota // to a host that nobody configured
	FromTenant                 // to a tenant's site
	FromOperator               // the operator's own, such as an admin interface
	FromProbe                  // a health probe: whoever fails it may be restarted
)

// String returns the sender in lower case.
func (s Sender) String() string {
	switch s {
	case FromUnknown:
		return "unknown"
	case FromTenant:
		return "tenant"
	case FromOperator:
		return "operator"
	case FromProbe:
		return "probe"
	}
	return "invalid"
}

// Arrival is a request of which the head was read. The zero value is one to a
// host that nobody configured, as are senders that don't exist.
type Arrival struct {
	From Sender
	// Tenant names whose share counts, if the request is from one. Requests of
	// tenants without a name count as one tenant together.
	Tenant string
	// Weight is the tenant's, from 1 to [MaxWeight] and cut to that. 0 means 1.
	Weight int
	// Client is a hash of what tells clients apart, such as the address. While
	// only part of the requests is let in, those of one client meet the same fate
	// for ten seconds or so, since a page of which half is missing is of no use.
	// 0 means unknown: each request is on its own.
	Client uint64
}

// Overload sheds requests when the process has more of them than it can serve. It
// is asked right after a request's head was read, before any other work. Its
// methods may be called by many goroutines. It must be closed.
type Overload struct {
	config guarding
	epoch  time.Time

	stop, done chan struct{}
	closing    sync.Once

	mu       sync.Mutex
	inFlight int64
	probes   int64
	tenants  shares
	tokens   slots[entered]
	lag      lagState
	windows  uint64 // of lag, that were judged
	alone    uint64 // requests of unknown clients that a part was let in of
	retry    retryAfter
	admitted uint64
	refused  [lastReason]uint64
}

// NewOverload returns a guard, or all that is wrong with the options: joined
// *[ConfigError] values. Unless the lag is off it has a goroutine, which ends
// with Close.
func NewOverload(options OverloadOptions) (*Overload, error) {
	return newOverload(options, runtimeLag())
}

func newOverload(options OverloadOptions, read lagReader) (*Overload, error) {
	config, err := options.resolve()
	if err != nil {
		return nil, err
	}
	o := &Overload{config: config, epoch: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	o.lag.open = openAll
	o.tenants.byName = map[string]*share{}
	if config.lagKnee < 0 {
		close(o.done)
	} else {
		go o.watchLag(read)
	}
	return o, nil
}

// Close ends the watching of the lag and waits for that. From then on nothing is shed
// for lag, and tokens are still good. It may be called more than once.
func (o *Overload) Close() {
	o.closing.Do(func() { close(o.stop) })
	<-o.done
	o.mu.Lock()
	o.lag = lagState{open: openAll} // nobody would see that it's over
	o.mu.Unlock()
}

// Enter decides whether a request may go on. If so, the token must be given back
// when the response has ended. It never blocks, looks at the clock at most when
// it refuses, and doesn't allocate, except for a tenant that it hasn't seen for
// long.
func (o *Overload) Enter(a Arrival) (Token, Decision) {
	o.mu.Lock()
	why := o.judge(&a)
	if why != Admitted {
		o.refused[why]++
		advice, ok := o.retry.sparse()
		if !ok {
			advice = o.retry.refuse(int64(time.Since(o.epoch)))
		}
		o.mu.Unlock()
		return Token{}, Decision{Reason: why, RetryAfter: advice}
	}
	o.admitted++
	t := o.admit(&a)
	o.mu.Unlock()
	return t, Decision{}
}

// judge decides, in the order in which senders are shed.
func (o *Overload) judge(a *Arrival) Reason {
	c := &o.config
	if a.From == FromProbe && o.probes < c.probes {
		return Admitted
	}
	if o.inFlight < c.knee && o.lag.level == Calm {
		return Admitted
	}
	switch a.From {
	case FromOperator:
		if o.inFlight >= c.operator {
			return OperatorShed
		}
		return Admitted
	case FromTenant:
		if o.inFlight >= c.limit || o.lag.level == Shedding {
			return TenantsShed
		}
		if o.tenants.above(a, c.floor, o.scaled()) {
			return ShareExceeded
		}
		if o.lag.level == Recovering && !o.chosen(a.Client) {
			return PartlyShed
		}
		return Admitted
	case FromProbe:
		return ProbesFull
	}
	return UnknownHost
}

// scaled is how much of the knee tenants share: all of it when overload begins,
// nothing when all are to be shed.
func (o *Overload) scaled() int64 {
	c := &o.config
	part := int64(o.lag.open)
	if over := o.inFlight - c.knee; over > 0 {
		part = min(part, openAll*(c.limit-o.inFlight)/(c.limit-c.knee))
	}
	return c.knee * part / openAll
}

// chosen reports whether a client belongs to the part that is let in.
func (o *Overload) chosen(client uint64) bool {
	const golden = 0x9e3779b97f4a7c15
	if client == 0 {
		// Multiples of the golden ratio spread evenly, so the part is met closely.
		o.alone++
		return uint32(o.alone*golden>>54) < o.lag.open
	}
	client += o.windows >> 5 * golden // others have their turn after a while
	client = (client ^ client>>32) * 0xd6e8feb86659fd93
	client = (client ^ client>>32) * 0xd6e8feb86659fd93
	return uint32(client>>54) < o.lag.open
}

func (o *Overload) admit(a *Arrival) Token {
	var s *share
	switch a.From {
	case FromTenant:
		s = o.tenants.enter(a)
	case FromProbe:
		o.probes++
	}
	o.inFlight++
	i, gen := o.tokens.issue(entered{s, a.From == FromProbe})
	return Token{o, i, gen}
}

func (o *Overload) leave(t Token) {
	o.mu.Lock()
	if k := o.tokens.retire(t.slot, t.gen); k != nil {
		o.inFlight--
		if k.probe {
			o.probes--
		}
		if k.share != nil {
			o.tenants.leave(k.share)
		}
	}
	o.mu.Unlock()
}
