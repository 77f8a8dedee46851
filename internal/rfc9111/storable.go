package rfc9111

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// Exchange is a request with the head of its response, as they went between
// the cache and the origin.
type Exchange struct {
	Method string
	// RequestHeader is what the client sent, as far as storing depends on it:
	// Authorization, Cookie and Cache-Control.
	RequestHeader http.Header
	Status        int
	Header        http.Header // of the response, complete: also what isn't stored
	Path          string      // of the request, as sent; for [ExtensionFits]
	RequestedAt   time.Time   // when the request left for the origin
	ReceivedAt    time.Time   // when the head of the response was there
}

// Decision is what may be done with a response.
type Decision struct {
	// Store tells whether it may be stored, if its body turns out complete.
	Store bool
	// ShareOnce tells whether requests that waited for it may have it: if it is
	// usable on arrival, or the route allows that and nothing forbids it. Each
	// of them still has to pass [MayReuse] and the selecting fields.
	ShareOnce bool
	// Reason is Storable, or why it isn't stored.
	Reason Reason
	// Life is filled in even when the response isn't stored.
	Life Life
	// VaryNames are the selecting fields, in lower case, sorted, each once.
	VaryNames []string
}

// Decide says whether a response may be stored and shared (RFC 9111 §3).
func Decide(ex *Exchange, p *Policy) Decision {
	d := ParseResponse(ex.Header, p.targets())
	var dec Decision
	dec.Life = newLife(ex, &d, p)
	var star, tooMany bool
	dec.VaryNames, star, tooMany = varyNames(ex.Header["Vary"])
	if dec.Reason = notShared(ex, &d, &dec, p, star, tooMany); dec.Reason != Storable {
		return dec
	}
	l := &dec.Life
	ttl := l.Lifetime - l.InitialAge
	usable := !l.NoCache && (ttl > 0 || l.mayBeStale(ttl, l.StaleWhileRevalidate))
	dec.Reason = notWorthStoring(ex, &d, l, p)
	dec.Store = dec.Reason == Storable
	switch dec.Reason {
	case Storable, NoLifetime, StaleOnArrival:
		dec.ShareOnce = dec.Store && usable || p.ShareOnce && !l.NoCache && !l.MustRevalidate
	}
	return dec
}

// notShared returns why nobody but the client that asked may have a response,
// or Storable.
func notShared(ex *Exchange, d *Directives, dec *Decision, p *Policy, star, tooMany bool) Reason {
	l := &dec.Life
	switch {
	case ex.Method == http.MethodHead:
		return HeadNotStored
	case ex.Method != http.MethodGet:
		return MethodNotStored
	case ex.Status < 200:
		return InterimResponse
	case ex.Status == http.StatusPartialContent:
		return PartialContent
	case ex.Status == http.StatusNotModified:
		return NotModifiedResponse
	case d.MustUnderstand && !rfc9110.Understood(ex.Status):
		return StatusNotUnderstood
	case d.NoStore && !d.MustUnderstand: // §5.2.2.3 lifts it
		return ResponseNoStore
	case d.Private:
		return ResponsePrivate
	case !p.StoreSetCookie && (len(ex.Header["Set-Cookie"]) > 0 || len(ex.Header["Set-Cookie2"]) > 0):
		return SetsCookie
	case star:
		return VariesOnEverything
	case tooMany:
		return VariesOnTooMuch
	case slices.ContainsFunc(dec.VaryNames, tellsClient):
		return VariesByClient
	case misnamed(ex.Header):
		return MisnamedField
	case (ParseRequest(ex.RequestHeader).Has&^p.IgnoreRequest)&RequestNoStore != 0:
		return NoStoreRequested
	}
	if ok, r := MayReuse(l, ex.RequestHeader, p); !ok {
		return r
	}
	if len(ex.RequestHeader["Authorization"]) > 0 && !l.AuthReusable {
		return AuthorizationNotShared
	}
	if p.ByExtension && !l.SharedExplicit && ex.Status != http.StatusNotFound && ex.Status != http.StatusGone &&
		mismatched(ex.Path, MediaType(ex.Header)) {
		return ExtensionMismatch
	}
	return Storable
}

// misnamed reports whether a header has a name that is no token, which net/http's
// client lets pass: it may be meant for a field that would forbid sharing. Trailers that
// a handler sets have a prefix.
func misnamed(h http.Header) bool {
	for name := range h {
		if !field.IsToken(name) && !strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// notWorthStoring returns why a response that may be shared isn't stored, or
// Storable.
func notWorthStoring(ex *Exchange, d *Directives, l *Life, p *Policy) Reason {
	ttl := l.Lifetime - l.InitialAge
	switch {
	case ex.Status >= 500 && l.Lifetime <= 0:
		return ErrorWithoutLifetime
	case provoked(ex.Status) && l.Lifetime <= 0:
		return ProvokedWithoutLifetime
	case l.NoCache && !hasValidator(ex.Header):
		return MustAlwaysValidate
	case l.NoCache && (l.Source != FromNothing || d.Public || rfc9110.HeuristicallyCacheable(ex.Status)):
		return Storable
	case l.Source == FromNothing:
		return NoLifetime
	case ttl > 0 || p.StoreStale || hasValidator(ex.Header):
		return Storable
	case l.mayBeStale(ttl, l.StaleWhileRevalidate) || l.mayBeStale(ttl, l.StaleIfError):
		return Storable
	}
	return StaleOnArrival
}

// MayReuse says whether a request may have a response that came, or is to
// come, from another's: its Authorization and cookies can mean that the origin
// would answer it differently. It is asked for the request that fills the cache
// as well as for each that reuses the response.
func MayReuse(l *Life, request http.Header, p *Policy) (bool, Reason) {
	if !p.AuthorizationByRFC && len(request["Authorization"]) > 0 {
		return false, HasAuthorization
	}
	if !p.IgnoreCookies && len(request["Cookie"]) > 0 && !l.SharedExplicit && !l.StaticExplicit {
		return false, HasCookie
	}
	return true, Storable
}
