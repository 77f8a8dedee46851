// Package field reads HTTP field values: lists, tokens, quoted strings,
// parameters, dates and the part of structured fields that caching needs.
//
// Everything here is pure and allocation-conscious. Readers never fail on what
// a peer may send: a value that can't be read is reported as such, and the
// caller decides which reading is the cautious one.
package field
