package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/weirhttp/weir/internal/informational"
	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

var _ interface {
	http.ResponseWriter
	http.Flusher
	io.StringWriter
	io.ReaderFrom
} = (*fetch)(nil)

// Header is the handler's header map, as of http.ResponseWriter.
func (f *fetch) Header() http.Header { return f.header }

// WriteHeader takes the response's head, or an interim one. As in net/http the
// head isn't published before the first byte of the body, Flush or the end.
func (f *fetch) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	}
	switch {
	case f.wrote:
		return // the first one counts
	case status < 200 && status != http.StatusSwitchingProtocols:
		f.interim(status)
		return
	}
	f.wrote, f.status = true, status
	if !f.told {
		tellStatus(f.ctx, f.permit, status, true)
	}
	switch _, has := f.header["Content-Type"]; {
	case has || f.typed:
		f.head = f.makeHead(f.header)
	default:
		h := f.header.Clone() // what the handler changes now is too late
		f.sniff = needsSniff(h, status)
		if settleType(h, status); f.sniff {
			f.sniffed = h
		} else {
			f.head = f.makeHead(h)
		}
	}
}

// settleType says that a response has no Content-Type if it says nothing. Where a
// header that is stored says nothing net/http guesses again, from what is then sent.
func settleType(h http.Header, status int) {
	if _, has := h["Content-Type"]; !has && rfc9110.BodyAllowed(status) {
		h["Content-Type"] = nil
	}
}

// needsSniff reports whether net/http would find out the Content-Type from the
// body.
func needsSniff(h http.Header, status int) bool {
	_, has := h["Content-Type"]
	return !has && rfc9110.BodyAllowed(status) && h.Get("Content-Encoding") == "" && h.Get("Transfer-Encoding") == ""
}

// Write adds to the body that everyone reads.
func (f *fetch) Write(p []byte) (int, error) {
	if !f.wrote {
		f.WriteHeader(http.StatusOK)
	}
	if f.discard {
		return f.drop(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !rfc9110.BodyAllowed(f.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if f.sniff && f.head == nil {
		// Like net/http, which looks at what several small writes make together.
		if f.ctx.Err() != nil {
			return 0, context.Cause(f.ctx)
		}
		f.held = append(f.held, p...)
		if n := declaredLength(f.sniffed, f.status); len(f.held) < sniffLength && (n < 0 || int64(len(f.held)) < n) {
			return len(p), nil
		}
		return f.release(len(p))
	}
	return f.add(p)
}

// sniffLength is how much of a body says what type it has.
const sniffLength = 512

// release finds out the type of what was held back, and lets it go. n is what it
// returns if that works.
func (f *fetch) release(n int) (int, error) {
	held := f.held
	f.held = nil
	f.head = f.makeHead(f.sniffed)
	if len(held) == 0 {
		return n, nil
	}
	f.head.setType(http.DetectContentType(held))
	if _, err := f.add(held); err != nil {
		return 0, err
	}
	return n, nil
}

// add publishes the head, if it isn't yet, and adds p to the body.
func (f *fetch) add(p []byte) (int, error) {
	if !f.decide() {
		return 0, http.ErrHandlerTimeout
	}
	if f.discard {
		return f.drop(p)
	}
	err := f.head.fill.Append(f.ctx, p)
	if err != nil {
		if errors.Is(err, store.ErrLong) {
			err = http.ErrContentLength // the name by which handlers know it
		}
		return 0, err
	}
	f.checkKept()
	return len(p), nil
}

// drop takes bytes that nobody wants, until the patience with them is over.
func (f *fetch) drop(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	return len(p), nil
}

// WriteString is Write for a string.
func (f *fetch) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// Flush publishes the head; the body's bytes are handed out as they come
// anyway.
func (f *fetch) Flush() { _ = f.FlushError() }

// FlushError is Flush for http.ResponseController.
func (f *fetch) FlushError() error {
	if !f.wrote {
		f.WriteHeader(http.StatusOK)
	}
	if f.discard {
		return nil
	}
	if len(f.held) > 0 {
		if _, err := f.release(0); err != nil {
			return err
		}
	}
	if !f.decide() {
		return http.ErrHandlerTimeout
	}
	return nil
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// ReadFrom copies src into the body.
func (f *fetch) ReadFrom(src io.Reader) (n int64, err error) {
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		k, readErr := src.Read(buf[:])
		if k > 0 {
			w, err := f.Write(buf[:k])
			n += int64(w)
			if err != nil {
				return n, err
			}
		}
		if readErr == io.EOF {
			return n, nil
		}
		if readErr != nil {
			return n, readErr
		}
	}
}

// interim is a 1xx response on its way to the leader's client.
type interim struct {
	status int
	header http.Header
}

// interim hands an interim response to the leader, if it's still waiting. The
// others didn't ask the origin; they get only the response.
func (f *fetch) interim(status int) {
	h := f.header.Clone()
	rfc9110.RemoveHopByHop(h)
	select {
	case f.interims <- interim{status, h}:
	default: // more than anyone sends, or nobody there
	}
}

// send writes an interim response, which the client has to take within a stall timeout.
// Its fields aren't the final response's.
func (in interim) send(x *exchange) {
	if !x.r.ProtoAtLeast(1, 1) {
		return // it knows no interim responses (RFC 9110 §15.2)
	}
	w := x.w
	h := w.Header()
	before := h.Clone()
	for name, values := range in.header {
		h[name] = values
	}
	x.writing.begin(x.h.cfg.StallTimeout)
	informational.Write(w, in.status)
	late := x.writing.end()
	clear(h)
	for name, values := range before {
		h[name] = values
	}
	if late {
		x.abort(trace.ClientGone)
	}
}
