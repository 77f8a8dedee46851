// Package benchmarks compares admission with other limiters. It is a module of
// its own, so that nobody who imports weir needs them.
package benchmarks
