// Package rfc9111 decides what a shared cache may do: what it may store, for
// how long a stored response is fresh, when a stale one may still be served,
// and what a validation, a HEAD or an unsafe request does to it.
//
// It is pure: no I/O, no clock, no state. Whoever asks brings the time. The
// order of questions in the life of a response:
//
//	Decide       the head is there: store it? share it with those who wait?
//	StoredHeader which of its fields are kept
//	MayReuse     may this request (credentials, cookies) get it?
//	Judge        fresh, usable though stale, or to be validated?
//	ConditionalFor, Freshen, HeadEffect   validation
//	StaleIfError, StaleOnDisconnect       the origin fails
//	Invalidates, InvalidationTargets      an unsafe request went by
//
// The rules are those of RFC 9110, 9111, 5861, 8246, 9213 and 9875. Where they
// leave a choice, the zero [Policy] takes the one that can't leak, and each
// more liberal choice is a field of its own; [ByTheRFC] sets them all.
//
// Malformed input never makes a response fresher than its well-formed,
// strictest reading: what can't be read restricts and never permits.
package rfc9111
