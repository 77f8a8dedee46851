// Package trace holds what happened to one request, in one record.
//
// # The model
//
// Every request that weir handles has one [Record]. It says how the cache
// answered ([Cache]), how the request got past admission ([Admission]), which
// origins were asked ([Origin]), and what was sent in the end. The steps of the
// request fill in their own part; nobody else's. At the end of the request one
// [Hook] gets the record, and everything that reports on requests (logs,
// metrics, spans, status pages) is a hook.
//
// The headline of a record is its [Status]. There are ten, each a different
// answer to "who produced these bytes, and why":
//
//	HIT          a stored, fresh response
//	STALE        a stored, stale response that may be used as it is
//	STALE-ERROR  a stored, stale response, because the origin failed or admission refused
//	COLLAPSED    the response to another client's request that was already under way
//	MISS         the origin; nothing usable was stored
//	EXPIRED      the origin; what was stored was stale and has been replaced
//	REVALIDATED  a stored response, after the origin said that it is still valid
//	BYPASS       the origin; your configuration kept the cache out of it
//	DYNAMIC      the origin; its response forbids reuse
//	SHED         nobody: admission refused and there was nothing to fall back on
//
// The first four are served from the cache ([Status.ServedFromCache]):
// the origin did no work for this client. REVALIDATED isn't one of them,
// because the origin was asked.
//
// # Context
//
// The record travels in the request's context ([NewContext], [FromContext]).
// A handler outside of weir, a logger for example, may put a record there
// itself; weir then fills that one, and the handler can read it when the
// request is over. A record belongs to one request and one goroutine at a time.
// A fetch that outlives its client must not write to the client's record, so
// it runs with a context from which the record was hidden (NewContext with a
// nil record).
//
// # On the wire
//
// [AppendCacheStatus] writes a member of the Cache-Status field (RFC 9211).
// The other field names that weir sends are the constants that begin with
// Header. Values that hold parts of a request pass through
// [HeaderValue] first, so that no request can write a header line of its own.
package trace
