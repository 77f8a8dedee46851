package lb

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// maxHints is how many 1xx responses wait for a client. More are dropped.
const maxHints = 8

// hints hands on the 1xx responses to a request. The transport tells of them on the
// goroutine that reads the origin's connection, which an HTTP/2 origin's other requests
// share, and which the origin's timeouts count on: it must not wait for a client. So
// they are handed on by a goroutine that lasts as long as there are any. It may be used
// for one request after the other. The zero value is ready.
type hints struct {
	mu       sync.Mutex
	turn     uint64 // which request this is, by number
	open     bool   // no answer yet
	held     bool   // none may be handed on just now
	pass     func(code int, header textproto.MIMEHeader) error
	waiting  []hint
	done     chan struct{} // closed by the goroutine; nil if there is none
	err      error         // of pass
	panicked any           // what pass panicked with
}

type hint struct {
	code   int
	header textproto.MIMEHeader
}

// begin begins a request, whose 1xx responses are handed to pass: one after the other,
// with a header of their own, without the fields of the origin's connection.
func (h *hints) begin(pass func(code int, header textproto.MIMEHeader) error) (turn uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn++
	h.open, h.held, h.pass, h.err, h.panicked = true, false, pass, nil, nil
	return h.turn
}

// add takes a 1xx response. It doesn't wait, and does nothing once the request of that
// turn has its answer.
func (h *hints) add(turn uint64, code int, header textproto.MIMEHeader) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if turn != h.turn || !h.open {
		return nil
	}
	if h.err != nil || h.held || len(h.waiting) >= maxHints {
		return h.err
	}
	h.waiting = append(h.waiting, hint{code, maps.Clone(header)})
	if h.done == nil {
		h.done = make(chan struct{})
		go h.run(h.done)
	}
	return nil
}

func (h *hints) run(done chan struct{}) {
	defer close(done)
	defer func() {
		if p := recover(); p != nil { // it belongs to the request's goroutine
			h.mu.Lock()
			h.panicked, h.open, h.waiting, h.done = p, false, nil, nil
			h.mu.Unlock()
		}
	}()
	for err := error(nil); ; {
		h.mu.Lock()
		if h.err = err; err != nil {
			h.waiting = nil
		}
		if len(h.waiting) == 0 {
			h.waiting, h.done = nil, nil
			h.mu.Unlock()
			return
		}
		next, pass := h.waiting[0], h.pass
		h.waiting = h.waiting[1:]
		h.mu.Unlock()
		dropHopByHop(http.Header(next.header), nil)
		err = pass(next.code, next.header)
	}
}

// hold waits until what has come was handed on, and keeps back what comes until release.
func (h *hints) hold(turn uint64) {
	h.mu.Lock()
	if turn != h.turn {
		h.mu.Unlock()
		return
	}
	h.held = true
	done := h.done
	h.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (h *hints) release(turn uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if turn == h.turn {
		h.held = false
	}
}

// end says that there is an answer. It waits until what has come was handed on, so that
// the goroutine is at its end, but no longer than until given up; nil is never. It
// returns pass's error and panics as pass did.
func (h *hints) end(givenUp <-chan struct{}) error {
	h.mu.Lock()
	h.open = false
	if done := h.done; done != nil {
		h.mu.Unlock()
		select {
		case <-done:
		case <-givenUp:
		}
		h.mu.Lock()
	}
	h.waiting = nil
	err, panicked := h.err, h.panicked
	h.panicked = nil
	h.mu.Unlock()
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// drop is end where the request's own goroutine panics: what waits isn't handed on.
func (h *hints) drop() {
	h.mu.Lock()
	h.open, h.waiting = false, nil
	done := h.done
	h.mu.Unlock()
	if done != nil {
		<-done
	}
}

// hintedBody is the body of a request that expects a 100 (Continue). The server sends
// that as the body is first read, without regard to what else is being sent.
type hintedBody struct {
	io.ReadCloser
	hints *hints
	turn  uint64
	begun bool
}

func (b *hintedBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.hints.hold(b.turn)
		defer b.hints.release(b.turn)
	}
	return b.ReadCloser.Read(p)
}

func (b *hintedBody) interrupt() {
	if body, ok := b.ReadCloser.(interruptible); ok {
		body.interrupt()
	}
}

// holdHints returns a request's body, whose first read waits for the hints before it.
func holdHints(h *hints, turn uint64, body io.ReadCloser, header http.Header) io.ReadCloser {
	if body == nil || body == http.NoBody || len(header["Expect"]) == 0 {
		return body
	}
	return &hintedBody{ReadCloser: body, hints: h, turn: turn}
}

// hintedContext is a request's context with another trace, which is its own but for
// the hook for 1xx responses.
type hintedContext struct {
	context.Context
	theirs *httptrace.ClientTrace
	trace  httptrace.ClientTrace
	hints  hints
}

// Value returns our trace for theirs, under net/http's key.
func (c *hintedContext) Value(key any) any {
	v := c.Context.Value(key)
	if t, ok := v.(*httptrace.ClientTrace); ok && t == c.theirs {
		return &c.trace
	}
	return v
}

// roundTripHinted sends a request whose context has a hook for 1xx responses, such as
// that of [httputil.ReverseProxy], which writes to the client.
func roundTripHinted(req *http.Request, trace *httptrace.ClientTrace, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	c := &hintedContext{Context: req.Context(), theirs: trace, trace: *trace}
	turn := c.hints.begin(trace.Got1xxResponse)
	c.trace.Got1xxResponse = func(code int, header textproto.MIMEHeader) error {
		return c.hints.add(turn, code, header)
	}
	var res *http.Response
	var err error
	ended := false
	defer func() {
		if !ended { // a panic, of the hook perhaps
			c.hints.drop()
			closeBody(res)
		}
	}()
	out := req.WithContext(c)
	out.Body = holdHints(&c.hints, turn, req.Body, req.Header)
	res, err = send(out)
	failed := c.hints.end(req.Context().Done())
	ended = true
	if failed != nil && err == nil {
		closeBody(res)
		return nil, failed
	}
	if res != nil {
		res.Request = req
	}
	return res, err
}

func closeBody(res *http.Response) {
	if res != nil && res.Body != nil {
		res.Body.Close()
	}
}
