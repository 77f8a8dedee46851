// Package cachekey says which requests are the same: it turns a request into
// the identity under which a shared cache keeps its response.
//
// # Model
//
// A [Spec] is a fixed, ordered list of ingredients:
//
//	zone, scheme, host, method class, path, query parameters,
//	named header fields, named cookies, pairs from the application, user
//
// Two requests with the same ingredients are the same request. The ingredients
// are written to one canonical text, and the BLAKE3 hash of exactly that text
// is the [Key]:
//
//	scheme:5:https host:11:example.com method:3:GET path:5:/page q:1:a:1:1 q:4:page:1:2
//
// Every name and every value has its length in bytes before it, so no value,
// name, colon or space can imitate a neighbour: [Parse] reads every text back
// into the ingredients that made it. "-" in the place of a value says that the
// header field or cookie is absent, "!" that a parameter or cookie came without
// "="; both differ from an empty value. The text holds values in clear and goes
// to traces, so don't key a secret: key an [Input.User] derived from it.
//
// The zero [Options] key the scheme, host, method class, path and whole query.
// Everything else in a request is an unkeyed input: it can change the response
// but not the key. Unkeyed input is how caches are poisoned, so what a Spec
// leaves out of the query, of the cookies (where it says so) and of normalised
// header fields, [Spec.Reduce] also takes out of the request that fills the
// cache.
//
// # Vary
//
// A response may name selecting header fields (RFC 9110 §12.5.5), so lookup has
// two steps: [Spec.Primary] from the request, then [Spec.WithVary] for the fields
// that responses under that primary key are known to name. The two kinds of key
// are hashed in separate domains and never coincide. A [Normalizer] reduces a
// selecting field to the few values that matter; without one the raw value
// counts, spelling and order included.
//
// # No-Vary-Search
//
// A response may say that some differences between queries don't matter (see
// [ParseSearch]). [Spec.SearchBase] is the key of a target without its query, under
// which the rules seen can be remembered; [Spec.WithSearch] is what such a rule makes
// of a query. Both are hashed in domains of their own.
//
// # What is compared raw
//
// The path is as sent: "/a%2Fb" and "/a/b" differ, "/%7Ea" and "/~a" differ,
// dot segments stay. The query is split at "&" and at the first "=" and never
// decoded: "%26" isn't "&", ";" separates nothing, "?flag" isn't "?flag=", and a
// bare "?" isn't no query, because an origin can see the difference. Cookie
// values are as sent, quotes included.
//
// A parameter that would be left out but contains ";" is kept in the key (and in
// the request to the origin) as long as any parameter is keyed: an origin that
// separates at ";" would see other parameters in it than the cache does.
//
// Parameters are sorted by name if no name comes twice. Names that are equal once
// decoded ("a" and "%61") count as the same name here, and a query with ";" in it
// is never sorted: in both cases the order may mean something to the origin.
//
// # Host
//
// The host is lower-cased and loses the scheme's default port (an empty port
// too). "example.com." stays different from "example.com": the origin sees the
// dot, and servers route the two differently. IPv6 literals keep their brackets
// and spelling. A request target in absolute form whose scheme or host isn't the
// one that the request is keyed under gets an ingredient of its own (target), so
// that it can neither read nor fill what ordinary requests use.
//
// # Use
//
// Keys are pure functions of their input: no clock, no I/O, no state. All methods
// of a Spec may be called concurrently. Building and hashing a key of up to 512
// bytes allocates nothing.
package cachekey
