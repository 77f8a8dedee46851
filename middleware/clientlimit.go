package middleware

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/admission"
)

// whyClientLimit is the reason in the record of a request above ClientLimit.
const whyClientLimit = "client-limit"

// clientRetryAfter is when such a client should come again: it knows best itself when
// its other requests end.
const clientRetryAfter = time.Second

func refusalByClientLimit() refusal {
	return refusal{http.StatusTooManyRequests, admission.Decision{RetryAfter: clientRetryAfter}, whyClientLimit}
}

// clientShards is how many locks the clients share; a power of two.
const clientShards = 64

// clientLimit bounds the requests that each client has in flight. It remembers a client
// only as long as it has one. Clients are told apart by the governor's hash of 64 bits,
// which nobody can choose: that two of a million share a count has a chance of 1 in 36
// million.
type clientLimit struct {
	limit   int
	refused atomic.Uint64
	shards  [clientShards]clientShard
}

type clientShard struct {
	mu       sync.Mutex
	inFlight map[uint64]int
	_        [48]byte // a cache line of its own
}

// clientToken stands for a request that was let in. The zero value is none.
type clientToken struct {
	shard  *clientShard
	client uint64
}

// newClientLimit returns nil for a limit of 0: none.
func newClientLimit(limit int) *clientLimit {
	if limit == 0 {
		return nil
	}
	l := &clientLimit{limit: limit}
	for i := range l.shards {
		l.shards[i].inFlight = map[uint64]int{}
	}
	return l
}

// enter counts a request of the client, unless it has as many as it may.
func (l *clientLimit) enter(client uint64) (t clientToken, ok bool) {
	s := &l.shards[client%clientShards]
	s.mu.Lock()
	n := s.inFlight[client]
	if ok = n < l.limit; ok {
		s.inFlight[client] = n + 1
	}
	s.mu.Unlock()
	if !ok {
		l.refused.Add(1)
		return t, false
	}
	return clientToken{s, client}, true
}

// leave gives back what enter counted. It must be called once.
func (t clientToken) leave() {
	s := t.shard
	if s == nil {
		return
	}
	s.mu.Lock()
	if n := s.inFlight[t.client]; n > 1 {
		s.inFlight[t.client] = n - 1
	} else {
		delete(s.inFlight, t.client)
	}
	s.mu.Unlock()
}

// ClientStats is what AdmissionOptions.ClientLimit holds and has done.
type ClientStats struct {
	Limit    int
	Clients  int    // that have requests in flight
	InFlight int    // requests of all of them
	Most     int    // of the one that has most
	Refused  uint64 // requests, since the start
}

func (l *clientLimit) stats() (c ClientStats) {
	if l == nil {
		return c
	}
	c.Limit, c.Refused = l.limit, l.refused.Load()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		c.Clients += len(s.inFlight)
		for _, n := range s.inFlight {
			c.InFlight, c.Most = c.InFlight+n, max(c.Most, n)
		}
		s.mu.Unlock()
	}
	return c
}

// checkClientLimit refuses a bound that bounds nothing.
func (o *AdmissionOptions) checkClientLimit(bad *problems) {
	const field = "Admission.ClientLimit"
	if o.ClientLimit < 0 {
		bad.add(field, o.ClientLimit, "must not be negative; leave it 0 for no bound")
		return
	}
	v := o.Overload
	if v == nil || v.Limit < 0 || v.Knee < 0 {
		return
	}
	most, by := cmp.Or(v.Limit, 2*v.Knee, admission.DefaultOverloadLimit), "Limit"
	if o.Sender != nil { // a client may be the operator
		most, by = cmp.Or(v.OperatorLimit, 2*most), "OperatorLimit"
	}
	if o.ClientLimit > most {
		bad.add(field, o.ClientLimit, fmt.Sprintf("is above Admission.Overload.%s (%d), which nobody gets past, and so has no effect; lower it, or leave it 0", by, most))
	}
}
