package middleware

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// maxLost bounds how often a request looks again because what it found on disk
// couldn't be read. Then it takes nothing from the store.
const maxLost = 2

// open makes the body of a stored response ready to be sent. It comes before
// anything of the response is set or written: if the body is no longer there,
// or its first bytes are bad, that is a miss. Then it returns false, and x is
// to look again.
func (x *exchange) open(o *store.Object) bool {
	if o.Content == nil {
		return true
	}
	x.closeFile()
	off, n := x.firstPiece(o)
	if n == 0 {
		return true
	}
	f, err := o.Content.Open()
	if err == nil {
		x.file = f
		_, err = f.Section(off, min(n, store.CopySpan))
	}
	if err == nil {
		return true
	}
	x.closeFile()
	if !errors.Is(err, store.ErrUnavailable) { // then it's good as far as anybody knows
		x.h.store.DeleteObject(o)
	}
	x.lost++
	x.now = time.Now()
	return false
}

// firstPiece is the place of the first bytes of o that x will be sent. n is 0 if there
// are none.
func (x *exchange) firstPiece(o *store.Object) (off, n int64) {
	size := o.BodySize()
	if x.r.Method == http.MethodHead || x.notModified(o.Status, o.Header, o.Life.ReceivedAt) {
		return 0, 0
	}
	if asked, ok := x.ranges(o.Status, o.Header); ok {
		switch parts, outcome := asked.Resolve(size); {
		case outcome == rfc9110.RangeUnsatisfiable:
			return 0, 0
		case outcome != rfc9110.RangeIgnored:
			return parts[0].Start, parts[0].Length
		}
	}
	return 0, size
}

func (x *exchange) closeFile() {
	if x.file != nil {
		_ = x.file.Close()
		x.file = nil
	}
}

// sendStored sends a part of a stored response's body. open came before.
func (x *exchange) sendStored(o *store.Object, off, n int64) {
	if o.Content == nil {
		x.writeStored(o.Body[off : off+n])
		return
	}
	l := newStallLimit(x)
	defer l.end()
	small := n <= smallBody
	if small {
		x.writing.begin(x.h.cfg.StallTimeout)
	}
	// The writer itself, so that net/http can let the system copy.
	sent, err := store.CopySection(x.w, x.file, off, n, func(piece int64) error {
		l.allow(piece)
		return nil
	})
	late := small && x.writing.end()
	x.rec.BytesSent += sent
	if late {
		x.abort(trace.ClientGone)
	}
	if err != nil {
		x.abort(whyShort(err))
	}
}

// whyShort tells whether it's the store or the client that a body broke off
// for.
func whyShort(err error) trace.Outcome {
	var path *fs.PathError
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrGone) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &path) {
		return trace.Aborted
	}
	return trace.ClientGone
}
