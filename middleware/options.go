package middleware

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// Defaults of [Options] and [Route].
const (
	DefaultName           = "weir"
	DefaultFetchTimeout   = 60 * time.Second
	DefaultWaitTimeout    = 30 * time.Second
	DefaultStallTimeout   = 60 * time.Second
	DefaultUnshareableFor = 10 * time.Second
	DefaultBodyTimeout    = 60 * time.Second
	DefaultBodyRate       = 240 // bytes a second
	// DefaultHeuristicMax bounds lifetimes that the origin didn't give.
	DefaultHeuristicMax = rfc9111.DefaultHeuristicMax
	// DefaultErrorMax bounds the lifetimes that origins give their own 5xx.
	DefaultErrorMax = rfc9111.DefaultErrorMax
	// DefaultStaleOnDisconnect bounds how stale a response may be that stands
	// in for an origin that can't be reached.
	DefaultStaleOnDisconnect = rfc9111.DefaultStaleOnDisconnect
	// DefaultRangeWindow is how far into an object a range may start for the
	// whole object to be fetched because of it.
	DefaultRangeWindow = 8 << 20
)

// Options configure a [Middleware]. The zero value is useful and safe.
type Options struct {
	// Name is the cache's name in the Cache-Status field (RFC 9211). Empty
	// means DefaultName ("weir"); printable ASCII.
	Name string
	// StatusHeader is the field that carries the status word alone (HIT,
	// MISS, ...). Empty means trace.DefaultStatusHeader ("Weir-Cache-Status");
	// "-" sends none.
	StatusHeader string
	// Store bounds what is kept.
	Store store.Options
	// Default is the route of every request that no other route matches.
	Default Route
	// Purge says what can be purged, and by whom.
	Purge PurgeOptions
	// Admission says how much may load the origin and this process, and how fast.
	// The zero value limits nothing.
	Admission AdmissionOptions
	// TrustedProxies are the peers whose forwarding fields (X-Forwarded-Host,
	// X-Forwarded-Proto, Forwarded, ...) are believed: they make the scheme and
	// host of the key, and say who the client is. From any other peer such fields are removed. If it's
	// empty nobody's are known to be right or wrong, and a request that has one
	// isn't cached. With a disk, each unsafe request that succeeds costs a write to the
	// journal of purges: what is stored may have been asked for by way of another proxy.
	TrustedProxies []netip.Prefix
	// Debug reports whether the answer to this request should explain itself
	// in further header fields: key, reason, route. It must admit only those
	// who may see this. nil means never.
	Debug func(*http.Request) bool
	// Hook receives the record of each request at its end. nil means none.
	Hook trace.Hook
	// Logger gets what an operator should know: panics of the wrapped handler
	// that no client's connection can carry, and zones that Admission names and no
	// handler has. nil means slog.Default().
	Logger *slog.Logger
	// Targets are the targeted cache control fields obeyed (RFC 9213), the
	// first present one wins. nil means Weir-Cache-Control and
	// CDN-Cache-Control; empty but not nil means none.
	Targets []string
	// FetchTimeout is how long a fetch may take until the response's head, once it
	// is admitted. Then it's cancelled and its clients get 504 or a stale copy. 0 means
	// DefaultFetchTimeout (60 s); negative means no limit.
	FetchTimeout time.Duration
	// WaitTimeout is how long a request waits for another one's fetch until
	// the response's head. Then it fetches for itself. 0 means
	// DefaultWaitTimeout (30 s); negative is an error: nobody waits for ever.
	WaitTimeout time.Duration
	// StallTimeout is how long a body may make no progress: the origin sends nothing
	// of a shared one (the fetch fails), or a client takes less than 32 KiB of an
	// arriving body or one that is passed on, or all of a stored body of up to 64 KiB or
	// a refusal, or 256 KiB on average of a file or a larger stored body (it's cut off).
	// Only the time counts in which the client is waited for. 0 means DefaultStallTimeout (60 s); negative means no
	// limit; 24 h is the most.
	// The kernel tells that a client has taken something only after a while: when 256
	// KiB have gone out on a server made by [NewServer] on Linux, elsewhere when a third
	// of the send buffer has, which may be more than 1 MiB. A client that takes less
	// than that in StallTimeout may be cut off though it takes what is said above.
	// Clients aren't watched where http.Server.WriteTimeout is set, which bounds
	// the whole response. An outer handler's own SetWriteDeadline is overridden
	// unless this is negative.
	StallTimeout time.Duration
	// BodyTimeout is how long a request's body may make no progress while the wrapped
	// handler reads it: then the read fails, and over HTTP/1 the connection is closed
	// after the answer. A body that the handler doesn't read to its end is awaited for
	// five seconds at most. 0 means DefaultBodyTimeout (60 s); negative means no limit.
	// Bodies aren't watched where http.Server.ReadTimeout is set, which bounds all of
	// the request, nor on servers other than net/http's. The time for a request's head
	// is the server's: see [NewServer].
	BodyTimeout time.Duration
	// BodyRate is how many bytes a second of the body must come on average over each
	// BodyTimeout in which it's waited for: a byte now and then is no progress. 0 means
	// DefaultBodyRate (240); negative means that one byte in BodyTimeout is enough.
	BodyRate int
	// UnshareableFor is how long a key is remembered whose response couldn't
	// be shared, so that requests for it don't wait for one another. 0 means
	// DefaultUnshareableFor (10 s); negative remembers nothing.
	UnshareableFor time.Duration
}

// Route says how requests are treated. The zero value has the safe rules.
type Route struct {
	// Name is the route's name in traces. Empty means "default".
	Name string
	// CacheOff keeps the cache out of the route: everything is handed through.
	CacheOff bool
	// Methods are the methods whose responses are reused: GET, or GET and HEAD.
	// nil means both.
	Methods []string
	// Key says what makes two requests the same.
	Key cachekey.Options
	// TTL overrides the origin's freshness lifetimes.
	TTL TTL
	// StaleWhileRevalidate is how long after its freshness a response is still
	// served while one request in the background refreshes it (RFC 5861 §3).
	// The origin's own directive goes first. 0 means only what the origin says.
	StaleWhileRevalidate time.Duration
	// StaleIfError is how long after its freshness a response is served in
	// place of an error (RFC 5861 §4). The origin's own directive goes first.
	// 0 means only what the origin says.
	StaleIfError time.Duration
	// StaleOnDisconnect bounds how stale a response may be that is served when
	// the origin can't be reached or its connection breaks, where nothing
	// forbids that (RFC 9111 §4.2.4). 0 means DefaultStaleOnDisconnect (24 h);
	// negative means never.
	StaleOnDisconnect time.Duration
	// BypassCookies are names of request cookies that keep the cache out of
	// the request, such as "session" or "wordpress_logged_in_*" (one trailing
	// asterisk).
	BypassCookies []string
	// DangerouslyIgnoreCookies asserts that request cookies don't change the
	// route's responses. Otherwise a request that has cookies (other than
	// those in the key) takes part in sharing only if the response is
	// explicitly shared (public, s-maxage, a targeted field), or a style sheet,
	// script, image, font or the like with explicit freshness whose path has the
	// extension of its type.
	DangerouslyIgnoreCookies bool
	// DangerouslyStoreSetCookie stores responses with Set-Cookie, and gives
	// everyone the same cookie. This is how sessions leak.
	DangerouslyStoreSetCookie bool
	// AuthorizationByRFC lets requests with Authorization reuse and create
	// shared responses exactly as RFC 9111 §3.5 allows. Otherwise they bypass
	// the cache.
	AuthorizationByRFC bool
	// HeuristicForAll gives every heuristically cacheable response a lifetime
	// when the origin gives none (RFC 9111 §4.2.2), HTML and JSON too.
	// Otherwise only types that are static beyond doubt get one.
	HeuristicForAll bool
	// HeuristicMax bounds heuristic lifetimes. 0 means DefaultHeuristicMax (1
	// h); negative means no heuristic at all.
	HeuristicMax time.Duration
	// StoreStale stores responses that are stale on arrival and have no
	// validator, for requests that accept them (max-stale) and for when the
	// origin is away. Otherwise they aren't worth the room.
	StoreStale bool
	// StorePost stores the response to a POST for later GETs, if it has explicit
	// freshness and its Content-Location is the request's own URL (RFC 9110
	// §9.3.3). It's copied as it goes to the client, within half of Store.FillBytes.
	StorePost bool
	// SelectLanguage lets a request have the stored response in the one language
	// that it prefers to all others, if the origin varies by Accept-Language
	// alone and the response says its language. A response counts as the one for its
	// language if its own request preferred that one, or a regional form of it, to all
	// others. Otherwise only an equal Accept-Language selects it.
	SelectLanguage bool
	// NoVarySearch lets a stored response answer a request for the same URL but for
	// the query, if its own No-Vary-Search field says that the difference doesn't
	// matter (draft-ietf-httpbis-no-vary-search), nothing usable is stored under
	// the request's own key, and the response may be served without asking the origin.
	// It then is as if it were stored under the request's URL too: a purge of that
	// URL and an unsafe request for it apply. Each unsafe request costs a write to the
	// journal of purges, if there is one.
	// Otherwise, and by default, the field means nothing to the cache. See
	// [cachekey.ParseSearch] for what is never shared.
	NoVarySearch bool
	// Admission says how the route's requests are admitted to the origin.
	Admission RouteAdmission
	// Ignore are request directives that this route doesn't obey.
	Ignore IgnoreDirectives
	// ShareOnce lets requests that were already waiting have a response that
	// may not be stored but isn't private either, such as one with max-age=0.
	ShareOnce bool
	// ForwardRange hands requests with Range to the origin as they are when
	// nothing usable is stored. Otherwise the whole object is fetched once and
	// the range served from it, as long as it starts within RangeWindow. The parts
	// that come back for single ranges are kept in memory if they have a strong
	// entity tag and the whole would fit there, and serve ranges within them while
	// they are fresh (RFC 9111 §3.3, §3.4). They take the room of the bytes that came.
	// A whole that comes back is stored as such. What arrives is copied as it goes to
	// the client, within half of Store.FillBytes; without room there it isn't kept.
	ForwardRange bool
	// RangeWindow is how far into an object a range may start for the whole
	// object to be fetched. 0 means DefaultRangeWindow (8 MiB).
	RangeWindow int64
}

// TTL overrides freshness lifetimes, the most specific first: ByStatus, then
// ByClass, then what the origin says, within Floor and Ceiling.
type TTL struct {
	// ByStatus has the lifetime for an exact status code, counted from receipt,
	// whatever the origin says about freshness. 0 or less means never fresh.
	ByStatus map[int]time.Duration
	// ByClass has the lifetime for a class: key 2 for all of 2xx. 0 or less
	// means never fresh. Of the 4xx it reaches 404, 410 and
	// 451 only: the others a client can provoke.
	ByClass map[int]time.Duration
	// Floor is the least lifetime of a response that the origin lets be fresh.
	// It raises only what is above zero, and no errors. 0 means none.
	Floor time.Duration
	// Ceiling is the longest lifetime. 0 means none.
	Ceiling time.Duration
	// ErrorMax bounds the lifetime that the origin gives its own 5xx: an error
	// stored by mistake must die soon. 0 means DefaultErrorMax (1 min);
	// negative means no bound.
	ErrorMax time.Duration
}

// IgnoreDirectives are request directives (RFC 9111 §5.2.1) that a route
// doesn't obey, because a visitor could force work on the origin with them.
type IgnoreDirectives struct {
	NoStore      bool // no-store
	NoCache      bool // no-cache and Pragma: no-cache
	MaxAge       bool // max-age
	MinFresh     bool // min-fresh
	MaxStale     bool // max-stale
	OnlyIfCached bool // only-if-cached
}

// RFCProfile returns a route with the letter of RFC 9111, for comparisons and
// for origins that are known to mark what is private: Authorization by §3.5,
// request cookies ignored, responses with Set-Cookie stored, heuristic
// freshness for every heuristically cacheable response, the origin's lifetimes
// for its errors, stale responses stored, ranges forwarded, POST responses stored
// that say they may be, selecting header fields compared by what they mean (§4.1).
// Each is an option of its own; the profile only sets them.
func RFCProfile() Route {
	return Route{
		Name:                      "rfc9111",
		AuthorizationByRFC:        true,
		DangerouslyIgnoreCookies:  true,
		DangerouslyStoreSetCookie: true,
		HeuristicForAll:           true,
		StoreStale:                true,
		ForwardRange:              true,
		StorePost:                 true,
		SelectLanguage:            true,
		Key: cachekey.Options{
			CompareAsLists: true,
			Normalize:      map[string]cachekey.Normalizer{"Accept-Language": cachekey.EquivalentLanguages()},
		},
		TTL: TTL{ErrorMax: -1},
	}
}
