// Package middleware puts a shared HTTP cache around any http.Handler.
//
//	mw, err := middleware.New(middleware.Options{})
//	if err != nil { ... }
//	http.ListenAndServe(addr, mw.Wrap(handler))
//
// # The way of a request
//
// A request is classified (may the cache deal with it at all?), given a key,
// looked up, and what was found is judged (fresh, stale but usable, to be
// validated). A usable response is sent. Otherwise the request claims its key:
// the first one leads, and the wrapped handler runs in a goroutine of its own
// that writes to a shared body; all others that came for the same key read
// that body too, from the first byte, while it is still arriving. At the
// response's head it is decided whether others may have it and whether it may
// be stored, and at a clean end it is stored. The file pipeline.go tells it in
// code.
//
// # What is shared
//
// The zero Options are the safe rules: responses are stored when the origin
// says so (and for CSS, JavaScript, images and the like by a short heuristic),
// never with Set-Cookie, and requests that carry Authorization bypass the
// cache. A request with cookies is given shared responses only if the origin
// says explicitly that they are shared. [RFCProfile] has the letter of RFC
// 9111 instead. Each rule is an option of [Route].
//
// # What the wrapped handler notices
//
// A GET that may be answered from the cache is passed on in another goroutine,
// with a clone of the request: without Range, If-* and what the key leaves out,
// with the context's values but not its cancellation (the response belongs to
// all who wait for it). All other requests reach it on their own goroutine and
// with the client's own ResponseWriter, wrapped only as far as needed.
package middleware
