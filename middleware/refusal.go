package middleware

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// refusalGrace is how long the client of a refused request may go on sending its
// body. Closing at once would reset the connection before it has read the refusal.
const refusalGrace = 500 * time.Millisecond

// WriteRefusal answers a request with an error and nothing else, at once: it neither
// waits for a body that the client has announced and not sent, nor keeps a goroutine
// and a connection for it. A retryAfter above 0 is sent as Retry-After, in whole
// seconds and spread by up to a quarter and a second, or all who were refused at one
// moment would come back at one moment; it's a year at most. It is for handlers of the
// application too that refuse a request before they have read its body: as an answer
// of the wrapped handler, it doesn't lower an adaptive ceiling. Nothing may have been
// written to w before.
//
// net/http holds an answer back until up to 256 KiB of an announced body have come
// (golang/go#25475), and reads on after it. Over HTTP/1 such a request's connection
// is therefore closed, and has half a second to send what it likes. Others stay open:
// new ones would cost an overloaded server more. A writer that hides the connection's
// deadlines, as that of http.TimeoutHandler does, leaves the body to net/http, which
// waits for it without a limit unless the server has a ReadTimeout.
func WriteRefusal(w http.ResponseWriter, r *http.Request, status int, retryAfter time.Duration) {
	setRefusal(w, r, retryAfter)
	refusedInside(w)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(refusalBody(status))
	}
}

// refusedInside notes that a wrapped handler refuses a request by itself: that says
// nothing about what its origin can take.
func refusedInside(w http.ResponseWriter) {
	for w != nil {
		switch own := w.(type) {
		case *passWriter:
			own.told = true
		case *fetch:
			own.told = true
		}
		wrapped, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = wrapped.Unwrap()
	}
}

func refusalBody(status int) []byte { return []byte(http.StatusText(status) + "\n") }

// setRefusal sets the fields of a refusal, and gives its request's body up.
func setRefusal(w http.ResponseWriter, r *http.Request, retryAfter time.Duration) {
	h := w.Header()
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	setRetryAfter(h, retryAfter)
	giveUpBody(w, r)
}

// setRetryAfter says when to come again; 0 says nothing.
func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(spread(d), 10)}
	}
}

// giveUpBody sees to it that an answer doesn't wait for the request's body. HTTP/2
// resets the stream by itself, and takes Connection: close for the whole connection.
func giveUpBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	switch b := r.Body.(type) {
	case *receivedBody:
		if b.whole() {
			return
		}
	case *slowBody: // in the wrapped handler
		if !b.wanted() {
			return
		}
	}
	w.Header()["Connection"] = []string{"close"}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusalGrace)) // or it's no net/http
}

// maxRetryAfter bounds what is sent as Retry-After, before it's spread.
const maxRetryAfter = 365 * 24 * time.Hour

// spread returns d in whole seconds, or a little more.
func spread(d time.Duration) int64 {
	s := int64((min(d, maxRetryAfter) + time.Second - 1) / time.Second)
	return s + rand.Int64N(s/4+2)
}
