package lb

import (
	"log/slog"
	"time"
)

// The defaults of [Pool] and [Retry].
const (
	DefaultMinimumHealthy = 1
	DefaultMaxConnections = 200
	DefaultHashBound      = 125 // percent
	DefaultRetryAttempts  = 3
	DefaultRetryPercent   = 20       // of requests
	DefaultRetryFloor     = 3        // in ten seconds
	DefaultRetryBody      = 64 << 10 // bytes
)

// MaxWeight is the highest weight of an origin.
const MaxWeight = 8

const (
	maxPools       = 1024
	maxOrigins     = 256
	maxConnections = 1 << 20
	maxRetryBody   = 16 << 20
	minHashBound   = 105
	maxHashBound   = 1000
)

// Options configures a [Balancer].
type Options struct {
	// Pools are all pools; at least one, at most 1,024.
	Pools []Pool
	// Hosts says which pools serve a host, by name in order of preference. A host
	// is an exact name without port, "*.example.com" for all names below
	// example.com, or "*" for all others. The longest match counts. Nil means that
	// all pools serve every host, in the order of Pools.
	Hosts map[string][]string
	// DisablePanic refuses requests when no pool has an eligible origin. As a rule
	// they are sent to origins that are thought to be sick then, because a wrong
	// health check must not become a total outage. What is disabled, in
	// maintenance or drained never gets any.
	DisablePanic bool
	// StayInPool keeps all attempts of a request in one pool. As a rule they go
	// on to the host's next pool when the first one's origins have failed or are
	// at capacity.
	StayInPool bool
	// Log gets changes of origins' health. Nil means slog.Default().
	Log *slog.Logger
}

// Pool is a set of origins that can stand in for each other.
type Pool struct {
	// Name is for [Options.Hosts], the trail and the pool's identity across
	// updates; not empty and not used twice.
	Name string
	// Origins are the pool's, at most 256.
	Origins []Origin
	// Policy orders them. "" means [RoundRobin].
	Policy Policy
	// HashName is the field or cookie that [HashHeader] or [HashCookie] goes by. Of
	// Host it is the name, in lower case and without the port. Fields of one
	// connection, and of the body's length, are refused: requests may have lost them.
	HashName string
	// HashBound is how many requests an origin may have in flight before a hash
	// policy prefers the key's next origin, in percent of the origin's share of
	// all of the pool's. An origin with less than eight for each unit of its
	// weight is never above it. 0 means [DefaultHashBound] for [HashClient],
	// [HashPath] and [HashKey] and none for [HashHeader] and [HashCookie], whose
	// sessions would suffer; negative means none. From 105 to 1,000.
	HashBound int

	// MinimumHealthy is how many eligible origins the pool needs; with fewer, the
	// host's next pool is used. 0 means [DefaultMinimumHealthy].
	MinimumHealthy int
	// MaxConnections is how many requests may be in flight to each origin at once,
	// up to the end of the response's body. 0 means [DefaultMaxConnections],
	// negative means any number.
	MaxConnections int

	// Retry says when a failed attempt is followed by another.
	Retry Retry
	// Transport says how the origins are connected to.
	Transport TransportOptions

	// Health, Ejection and Breaker say how it is found out whether an origin is
	// well, WarmUp what it is asked before visitors get to it. The zero values are
	// no active checks, ejection with its defaults, no breaker and no warm-up.
	Health   HealthCheck
	Ejection Ejection
	Breaker  Breaker
	WarmUp   WarmUp
	// SlowStart is how long the share of an origin that is new or has recovered
	// grows from a sixteenth to its whole; up to an hour. 0 means not at all.
	SlowStart time.Duration
}

// Origin is one server. Only Address is needed.
type Origin struct {
	// ID is the origin's identity in the pool: hash policies place keys by it. With
	// Address and Scheme it is what counters and health belong to when the options
	// are updated. "" means Address.
	ID string
	// Address is a name or an IP address, with or without port; an IPv6 address
	// with a port is in brackets. Without port it is 443, or 80 for "http". A name
	// is resolved again for new connections.
	Address string
	// Scheme is "https" or "http". "" means the pool's Transport.Scheme.
	Scheme string
	// Weight is the origin's share, from 1 to [MaxWeight]. 0 means 1: a weight of
	// zero is Drained.
	Weight int

	// Drained is a weight of zero: no new requests, those in flight go on.
	Drained bool
	// Disabled takes the origin out as if it weren't configured.
	Disabled bool
	// Maintenance takes the origin out for a while.
	Maintenance bool

	// HostHeader replaces the visitor's Host. "" means the pool's Transport.Host,
	// and if that is empty the visitor's.
	HostHeader string
	// ServerName is what TLS asks for and, unless Transport.VerifyName says
	// otherwise, verifies. "" means the pool's Transport.ServerName.
	ServerName string
	// MaxConnections is as in [Pool]; 0 means the pool's.
	MaxConnections int
}

// Retry says when a failed attempt is followed by another, on another origin. POST
// and PATCH are never sent twice, nor is any request whose body can't be sent
// again, and nothing is repeated once a response head was passed on. The zero
// value allows three attempts.
type Retry struct {
	// Attempts is how many there may be, the first included, up to 3. 0 means
	// [DefaultRetryAttempts]; 1, or less than 0, means no repetition.
	Attempts int
	// Percent bounds how many attempts are repetitions: of the pool's requests of
	// the last ten seconds. 0 means [DefaultRetryPercent]; negative means none
	// above Floor. Up to 100.
	Percent int
	// Floor is how many repetitions ten seconds may have in any case, up to 1,000.
	// 0 means [DefaultRetryFloor]; negative means none.
	Floor int
	// Statuses are the answers that count as a failed attempt, from 500 to 599; if
	// no other attempt is allowed, or it fails too, the answer is passed on. Nil
	// means 502, 503 and 504; empty but not nil means none.
	Statuses []int
	// BodyBytes is how much of a body is kept while it is sent, so that it can be
	// sent again, up to 16 MiB. A longer one is repeated only if none of it was
	// read. It matters for methods that may be repeated, and only to bodies
	// without Request.GetBody. 0 means [DefaultRetryBody]; negative means that
	// nothing is kept.
	BodyBytes int
	// Unsent also repeats POST, PATCH and all other methods if the attempt ended
	// before a byte of the request was sent, as when no connection could be made.
	// The origins still see the request once at most.
	Unsent bool
}
