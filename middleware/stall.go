package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/trace"
)

// stallPiece is what a client has to take within the stall timeout.
const stallPiece = 32 << 10

// stallLimit writes to a client that must make progress. The server's own
// WriteTimeout, which bounds the whole response, is left alone.
type stallLimit struct {
	x      *exchange
	rc     *http.ResponseController
	after  time.Duration // 0: no limit
	active bool
}

func newStallLimit(x *exchange) stallLimit {
	l := stallLimit{x: x, rc: http.NewResponseController(x.w)}
	if d := x.h.cfg.StallTimeout; d > 0 {
		l.after = d
		if srv, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 {
			l.after = 0
		}
	}
	return l
}

func (l *stallLimit) write(p []byte) {
	if l.after == 0 {
		l.x.write(p)
		return
	}
	for len(p) > 0 {
		if err := l.rc.SetWriteDeadline(time.Now().Add(l.after)); err != nil {
			l.after = 0 // a writer without deadlines
			l.x.write(p)
			return
		}
		l.active = true
		n := min(len(p), stallPiece)
		l.x.writeUnwatched(p[:n])
		p = p[n:]
	}
}

const (
	// smallBody is what a client has to take within one stall timeout. The exchange's
	// timer sees to that, since a deadline costs too much for it.
	smallBody = 64 << 10
	// storedPiece is what a client of a stored body has to take within the stall
	// timeout, on average.
	storedPiece = 256 << 10
)

// writeStored writes a stored body in one go, which is what makes a hit cheap. The
// client has as many stall timeouts for it as it has pieces.
func (x *exchange) writeStored(p []byte) {
	if len(p) <= smallBody {
		x.write(p)
		return
	}
	l := newStallLimit(x)
	defer l.end()
	if l.allow(int64(len(p))); l.active {
		x.writeUnwatched(p)
	} else {
		x.write(p)
	}
}

// allow gives the client as many stall timeouts for the next n bytes as they
// are pieces.
func (l *stallLimit) allow(n int64) {
	if l.after == 0 || n <= smallBody {
		return
	}
	if l.rc.SetWriteDeadline(time.Now().Add(l.after*time.Duration(1+n/storedPiece))) != nil {
		l.after = 0 // a writer without deadlines
		return
	}
	l.active = true
}

// end takes the deadline back, so that it hits neither the connection's next
// response nor, over HTTP/2, a stream on which there's nothing to send just now.
func (l *stallLimit) end() {
	if l.active && l.x.rec.Outcome == trace.Complete { // that of a cut body stays
		_ = l.rc.SetWriteDeadline(time.Time{})
		l.active = false
	}
}
