// Package weir is the root of a library that stands in front of any
// [net/http.Handler] and keeps the origin behind it alive, fast and private.
// It holds no code; its packages do.
//
// For the whole thing, wrap a handler with package middleware. It reuses a stored
// response, or one that is already being fetched, and can say of every answer why
// it is what it is.
//
// Each part also works alone, and none of them imports another:
//
//	cachekey    which requests are the same
//	store       where responses live, and the fetches that many readers share
//	purge       which stored responses no longer count
//	trace       what happened to one request, in one record
//
// What needs heavy dependencies (Redis, Prometheus, OpenTelemetry) is in
// modules of its own below these packages, so that importing weir brings none
// of them.
package weir
