// Package admission says whether work may start now, has to wait, or is refused.
// Package middleware asks it before it asks the origin.
//
// # Ceilings
//
// A [Limiter] has a global ceiling and one for each route, in units of cost. A
// request gets a [Permit] that counts against all ceilings that concern it, or it
// gets nothing: they are checked and taken under one lock, so no ceiling is ever
// exceeded and nothing is held while waiting for the rest. The permit is released
// when the work has ended; releasing it twice does no harm.
//
// Part of the ceiling can be reserved for critical requests, and for all but
// background ones. A reserve is kept by withholding: who isn't entitled finds that
// much less room. The ceiling is never exceeded for the sake of a reserve.
//
// The ceiling can follow what the origin is able to take, below the configured
// one: see [Adaptive].
//
// # Overload
//
// An [Overload] is asked earlier, right after the request's head, and never makes
// anyone wait. It looks at requests in flight and at how long goroutines wait for
// a processor. Up to a knee all pass. Above it, hosts that nobody configured and
// tenants above their fair share are shed, further up all tenants, last the
// operator. Health probes have a small reserve.
//
// # Queues
//
// Requests that find no room wait in a queue that is bounded in number and time.
// A tenant may use what others leave free of it, and makes way when they come.
// Whoever releases a permit hands the room to the next in the same critical section.
// Next is the most important class; in it, the tenant that got the least, by cost
// and weight (start-time fair queueing); of that tenant, the oldest request. A
// request whose route is full lets other routes pass. One that costs more than the
// global ceiling has room for holds up those behind it, since cheaper ones could
// otherwise keep it out for ever.
//
// A queue that isn't empty for a while is no burst but overload. Then of each tenant
// the newest request is served first, and old ones are refused as it is, so that
// some clients are served well instead of all of them too late (adaptive LIFO with
// controlled delay). Room is never left idle for that.
//
// A client that goes away leaves the queue at once.
//
// # Refusals
//
// A refusal is a [Decision] with a [Reason] and an advice when to come again.
// Refusing costs no allocation and next to no time.
//
// # Rates
//
// [Buckets] bound how much happens over time. One call debits several buckets and
// their parents, or none of them. A bucket can only be stricter than its parent.
// [Addresses] keeps one for each client address in bounded memory.
package admission
