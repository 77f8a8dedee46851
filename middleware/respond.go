package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// respond answers with a stored response. For a plain hit it's one allocation:
// the values of the header, which are the client's own to change. open came
// before.
func (x *exchange) respond(o *store.Object, status trace.Status, why reason, ttl time.Duration) {
	rec := x.rec
	rec.Cache.Status, rec.Cache.Reason, rec.Cache.TTL = status, string(why), ttl
	rec.Cache.Age = o.Life.Age(x.now)
	if x.memoise && uint(x.now.Nanosecond())%memoEvery == 0 {
		x.h.memo.put(x.r, x.key)
	}
	h := x.w.Header()
	room := copyHeader(h, o.Header)
	memo := x.memoOf(o, ttl)
	room[2] = memo.AgeText
	h["Age"] = room[2:3:3]
	if x.debug || status != trace.Hit {
		x.setStatus(h, room)
	} else {
		x.setStatusText(h, room, memo.CacheStatus)
	}
	if x.notModified(o.Status, o.Header, o.Life.ReceivedAt) {
		strip304(h)
		x.head(http.StatusNotModified)
		return
	}
	if ranges, ok := x.ranges(o.Status, o.Header); ok {
		if x.respondRanges(o, ranges, h) {
			return
		}
	}
	x.respondWhole(o, h, room)
}

func (x *exchange) respondWhole(o *store.Object, h http.Header, room []string) {
	if o.Trailer != "" {
		announceTrailer(h, o.Trailer.Header())
	} else if rfc9110.BodyAllowed(o.Status) {
		room[3] = o.Length
		h["Content-Length"] = room[3:4:4]
	}
	x.head(o.Status)
	if x.r.Method == http.MethodHead || o.BodySize() == 0 {
		return
	}
	x.sendStored(o, 0, o.BodySize())
	if o.Trailer != "" {
		o.Trailer.CopyTo(h, 0)
	}
}

// head sends the response's head.
func (x *exchange) head(status int) {
	x.rec.StatusCode = status
	x.headSent = true
	x.w.WriteHeader(status)
}

// write sends a piece of the body, which the client has to take within a stall
// timeout.
func (x *exchange) write(p []byte) {
	x.writing.begin(x.h.cfg.StallTimeout)
	n, err := x.w.Write(p)
	late := x.writing.end()
	x.wrote(n, err, late)
}

// writeUnwatched is write for a piece that has a deadline.
func (x *exchange) writeUnwatched(p []byte) {
	n, err := x.w.Write(p)
	x.wrote(n, err, false)
}

// wrote counts what was sent. A client that doesn't take all of it is gone, and
// its connection is cut: a short body must not look whole.
func (x *exchange) wrote(n int, err error, late bool) {
	x.rec.BytesSent += int64(n)
	if err != nil || late {
		x.abort(trace.ClientGone)
	}
}

// abort cuts the client's connection.
func (x *exchange) abort(why trace.Outcome) {
	x.rec.Outcome = why
	x.aborted = true
	cut(x.w, x.r)
	panic(http.ErrAbortHandler)
}

// announceTrailer names the trailer fields in the head, which then has no
// Content-Length.
func announceTrailer(h, trailer http.Header) {
	delete(h, "Content-Length")
	for name := range trailer {
		h["Trailer"] = append(h["Trailer"], name)
	}
}
