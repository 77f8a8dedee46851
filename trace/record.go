package trace

import (
	"slices"
	"time"
)

// Record is what happened to one request. Its zero value is an empty record
// ready for use. A record may be used by one goroutine at a time.
type Record struct {
	// Method is the request's method.
	Method string
	// Start is when the request reached weir.
	Start time.Time
	// Duration is the time from Start to the end of the response.
	Duration time.Duration
	// StatusCode is the status code sent to the client; 0 when none was.
	StatusCode int
	// BytesSent counts the bytes of the response body written to the client.
	BytesSent int64
	// Outcome says how the exchange with the client ended.
	Outcome Outcome

	// ForwardReason says why the request went to the origin; ForwardNone when
	// it didn't.
	ForwardReason Forward
	// ForwardStatus is the origin's status code; 0 when there was none.
	ForwardStatus int

	// Cache is how the cache answered.
	Cache Cache
	// Admission is how the request got past admission.
	Admission Admission
	// Origin is which origins were asked.
	Origin Origin
}

// Cache is the cache's part of a [Record].
type Cache struct {
	// Status is the headline.
	Status Status
	// Key is the hash of the cache key; zero when no key was made.
	Key [32]byte
	// KeyText is the text that was hashed. It is set only when debugging is
	// on for the request.
	KeyText string
	// Reason is one sentence that says why Status is what it is.
	Reason string
	// Route is the name of the matching route.
	Route string
	// Zone is the name of the zone.
	Zone string
	// Age is the age of the stored response (RFC 9111 §4.2.3).
	Age time.Duration
	// TTL is the remaining freshness lifetime; negative when stale.
	TTL time.Duration
	// Stored says that the origin's response was stored.
	Stored bool
	// NotStored says why the origin's response was not stored; empty when it
	// was, or when there was none.
	NotStored string
	// Collapsed says that the request waited for another client's fetch,
	// whatever came of it.
	Collapsed bool
	// Dropped names the request inputs that are not in the key and so were
	// left out of the request to the origin, such as "query utm_source".
	Dropped []string
}

// Admission is admission's part of a [Record].
type Admission struct {
	// Queued is the time spent waiting for permits.
	Queued time.Duration
	// Permits is what the request took of the ceilings, in units of cost; 0 when
	// nothing was needed or given. A request that waited for another's fetch took
	// nothing.
	Permits int
	// Verdict is "admitted" or "refused"; empty when admission wasn't asked, or
	// let the request go by without a permit, as it does a hit.
	Verdict string
	// Reason says why, such as "queue-full"; empty when Verdict is.
	Reason string
}

// Origin is the origins' part of a [Record].
type Origin struct {
	// Pool is the pool that was used.
	Pool string
	// Policy is the name of the pool's policy.
	Policy string
	// Chosen is the origin whose response was used; empty when none was.
	Chosen string
	// Panic says that the request was sent although no origin was eligible.
	Panic bool
	// Skipped are the origins that weren't eligible.
	Skipped []Skip
	// Attempts are the requests made, in order.
	Attempts []Attempt
}

// Skip is an origin that wasn't asked.
type Skip struct {
	// Name is the origin's name.
	Name string
	// Reason says why, such as "in maintenance".
	Reason string
}

// Attempt is one request to one origin.
type Attempt struct {
	// Origin is the origin's name.
	Origin string
	// Status is the response's status code; 0 when there was none.
	Status int
	// Err says what went wrong; empty when nothing did.
	Err string
	// Start is when the request was sent, counted from the record's Start.
	Start time.Duration
	// HeadAfter is the time from Start to the response's head; 0 when there
	// was none.
	HeadAfter time.Duration
	// Duration is the time from Start to the end of the attempt, including
	// the body as far as it is known.
	Duration time.Duration
}

// Clone returns a copy that shares no memory with r that a later use of r
// could change. A [Hook] that keeps what it got keeps a clone.
func (r *Record) Clone() *Record {
	c := *r
	c.Cache.Dropped = slices.Clone(r.Cache.Dropped)
	c.Origin.Skipped = slices.Clone(r.Origin.Skipped)
	c.Origin.Attempts = slices.Clone(r.Origin.Attempts)
	return &c
}

// Reset empties r. It keeps the capacity of r's slices, cleared, unless it is
// unusually large.
func (r *Record) Reset() {
	*r = Record{
		Cache: Cache{Dropped: recycle(r.Cache.Dropped)},
		Origin: Origin{
			Skipped:  recycle(r.Origin.Skipped),
			Attempts: recycle(r.Origin.Attempts),
		},
	}
}

// keepCap is the largest capacity that a pooled record keeps: one odd request
// must not make the pool hold its memory for ever.
const keepCap = 64

// recycle returns s emptied. All of its capacity is cleared, so that no string
// of one request stays reachable from the next.
func recycle[E any](s []E) []E {
	if cap(s) > keepCap {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}

// Hook receives the record of each request once, when the request has ended,
// on the request's own goroutine: a slow hook keeps the handler from
// returning. The record and its slices are valid only during the call, since
// they are pooled; a hook that keeps anything uses [Record.Clone]. Hooks run
// concurrently, for different requests.
type Hook func(*Record)
