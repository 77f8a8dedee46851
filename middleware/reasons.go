package middleware

// reason is a sentence for the trace on why a request took its way. Texts of
// the rules themselves come from the packages that decide.
type reason string

// Why the cache kept out of a request.
const (
	whyCacheOff     reason = "caching is off for the route"
	whyMethod       reason = "responses to this method aren't reused"
	whyAuth         reason = "the request has Authorization"
	whyCookie       reason = "the request has a cookie for which the route bypasses the cache"
	whyBody         reason = "the request has a body"
	whyUpgrade      reason = "the request asks to upgrade the connection"
	whyEvents       reason = "the request asks for an event stream"
	whyForwarding   reason = "the request has forwarding or override fields that no trusted proxy sent"
	whyNominated    reason = "the request's Connection field names other fields of it"
	whyPrecondition reason = "the request has a precondition that only the origin can judge"
	whyFarRange     reason = "the range starts too far into the object to fetch all of it"
	whyRange        reason = "the route hands ranges to the origin"
	whyPreface      reason = "the connection speaks HTTP/2, which this server doesn't without TLS"
	whyPurge        reason = "the request purges"
	whyLargeRange   reason = "the object is too large to be stored, so its ranges come from the origin"
)

// Why a request went to the origin, or needn't.
const (
	whyAbsent       reason = "nothing is stored under the key"
	whyVaryMiss     reason = "responses are stored for the key, but none for these selecting header fields"
	whyCredentials  reason = "the request has cookies and the stored response isn't marked as shared"
	whyNoStoreAsked reason = "the request says no-store"
	whyOnlyIfCached reason = "the request says only-if-cached and nothing usable is stored"
	whyPart         reason = "a stored part has the whole range and is fresh"
	whyCollapsed    reason = "another client's request for the same response was under way"
	whyValidated    reason = "the origin confirmed the stored response"
	whyNoAnswer     reason = "the origin gave no answer"
	whySearch       reason = "No-Vary-Search lets the stored response for another query answer"
	whyUnvalidated  reason = "the origin answered 304 to a request that wasn't conditional"
)

// Why a fetched response wasn't stored.
const (
	whyPurged    reason = "the key was purged while the response was fetched"
	whyOvertaken reason = "a response that was asked for later is stored, and is of another representation"
	whyTooLarge  reason = "the response is larger than the largest object that the cache keeps"
	whyNoMemory  reason = "the memory for bodies being fetched is used up"
	whyBodyFault reason = "the request's body didn't come"
	whyGaveUp    reason = "the request's context ended before the handler answered"
	whyPassed    reason = "the cache kept out of the request"
	whyTrailHead reason = "a response to HEAD isn't stored"
)
