package rfc9111

// Reason says why a decision is what it is. Its text is one sentence for
// operators, without a full stop.
type Reason uint8

const (
	// Why a response is stored, or usable.
	Storable Reason = iota
	Fresh
	WithinMaxStale
	WithinStaleWhileRevalidate
	WithinStaleIfError
	OriginUnreachable

	// Why a response isn't stored.
	MethodNotStored
	HeadNotStored
	InterimResponse
	PartialContent
	NotModifiedResponse
	ResponseNoStore
	StatusNotUnderstood
	ResponsePrivate
	NoStoreRequested
	SetsCookie
	VariesOnEverything
	VariesOnTooMuch
	VariesByClient // Vary names a field with the client's address
	MisnamedField  // a field's name is no token
	HasAuthorization
	AuthorizationNotShared
	HasCookie
	ExtensionMismatch
	ErrorWithoutLifetime
	ProvokedWithoutLifetime
	NoLifetime
	StaleOnArrival
	MustAlwaysValidate

	// Why a stored response isn't used as it is.
	Expired
	ResponseNoCache
	NoCacheRequested
	OlderThanRequested
	NotFreshLongEnough
	ForbiddenStale
	SharedLifetimeOver
	TooStale
	StaleNotAllowed

	reasonCount
)

var reasonTexts = [reasonCount]string{
	Storable:                   "the response may be stored",
	Fresh:                      "the stored response is fresh",
	WithinMaxStale:             "the request accepts a response this stale (max-stale)",
	WithinStaleWhileRevalidate: "the response is within its stale-while-revalidate window",
	WithinStaleIfError:         "the origin failed and the response is within its stale-if-error window",
	OriginUnreachable:          "the origin can't be reached and nothing forbids a stale response",

	MethodNotStored:         "only responses to GET are stored",
	HeadNotStored:           "a response to HEAD isn't stored",
	InterimResponse:         "an interim response isn't stored",
	PartialContent:          "a partial response isn't stored",
	NotModifiedResponse:     "a 304 only freshens what is stored",
	ResponseNoStore:         "the response says no-store",
	StatusNotUnderstood:     "the response says must-understand and its status isn't known",
	ResponsePrivate:         "the response says private",
	NoStoreRequested:        "the request says no-store",
	SetsCookie:              "the response sets a cookie",
	VariesOnEverything:      "the response varies on everything (Vary: *)",
	VariesOnTooMuch:         "the response varies on too many fields or its Vary can't be read",
	VariesByClient:          "the response varies by where its client is",
	MisnamedField:           "a field of the response has no valid name",
	HasAuthorization:        "the request has Authorization",
	AuthorizationNotShared:  "the request has Authorization and the response doesn't say that it may be shared",
	HasCookie:               "the request has cookies and the response doesn't say that it may be shared",
	ExtensionMismatch:       "the type of the response doesn't fit the extension of the path",
	ErrorWithoutLifetime:    "a server error is stored only with an explicit lifetime",
	ProvokedWithoutLifetime: "an error that a client can provoke is stored only with an explicit lifetime",
	NoLifetime:              "nothing says how long the response is fresh",
	StaleOnArrival:          "the response was stale on arrival and can't be validated",
	MustAlwaysValidate:      "the response says no-cache and can't be validated",

	Expired:            "the stored response is stale",
	ResponseNoCache:    "the stored response says no-cache",
	NoCacheRequested:   "the request says no-cache",
	OlderThanRequested: "the stored response is older than the request accepts (max-age)",
	NotFreshLongEnough: "the stored response isn't fresh for as long as the request asks (min-fresh)",
	ForbiddenStale:     "the stored response must not be served stale (must-revalidate or proxy-revalidate)",
	SharedLifetimeOver: "the stored response has s-maxage, which forbids serving it stale",
	TooStale:           "the stored response is staler than allowed",
	StaleNotAllowed:    "nothing allows to serve the stored response stale",
}

// String returns the reason as one sentence without a full stop.
func (r Reason) String() string {
	if r < reasonCount {
		return reasonTexts[r]
	}
	return "unknown reason"
}
