// Package rfc9110 holds the HTTP semantics that a cache needs when it answers
// from what it stores: entity tags, preconditions, ranges, and which fields,
// methods and statuses mean what (RFC 9110). It is pure.
package rfc9110
