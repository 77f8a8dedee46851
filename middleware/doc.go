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
// # What may load the origin
//
// Nothing is limited but what a slow client may hold up: see Options.BodyTimeout and
// Options.StallTimeout, and [NewServer] for the rest of it. With Options.Admission
// there are three limits more, each by itself:
//
//	Overload  how many requests this process has, decided right after the head
//	Guard     how often a client may ask, and all of them; decided then too
//	Limiter   how much the wrapped handler does at once
//
// The first two refuse at once, hits too, without a look at what is stored: 503, or
// 429 for a rate. A permit of the Limiter is taken by whatever reaches the handler,
// and held until it has returned: the body has ended then. Who gets none, after its
// time in the queue, is answered with a stale response where one may stand in for an
// error (STALE-ERROR), or refused (SHED, 503). The fetch queues, not its clients: it
// leaves the queue when the last of them has left, and if it's refused, all of them
// are answered and none asks again. It has the class of the request that began it. A
// refresh in the background has the lowest class, and doesn't queue.
//
// # What the wrapped handler notices
//
// A GET that may be answered from the cache is passed on in another goroutine,
// with a clone of the request: without Range, If-* and what the key leaves out,
// with the context's values but not its cancellation (the response belongs to
// all who wait for it). All other requests reach it on their own goroutine and
// with the client's own ResponseWriter, wrapped only as far as needed.
package middleware
