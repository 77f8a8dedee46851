package middleware

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
)

// wholeCapture keeps a copy of a response with status 200 that is handed on, and that
// answers later GETs of the same URL.
type wholeCapture struct {
	f        *fetch
	header   http.Header
	length   int64 // declared, or -1
	decision rfc9111.Decision
	at       time.Time
	tap      *store.Tap
	typed    bool // the client gets an outer handler's type if header has none
	guesses  bool // net/http is going to guess the type
	came     int  // from that many bytes
}

// captureWhole returns nil unless the rules allow the response to be stored.
func (f *fetch) captureWhole(h http.Header, typed bool) *wholeCapture {
	w := &wholeCapture{f: f, header: h.Clone(), length: declaredLength(h, http.StatusOK), at: time.Now()}
	w.decision = f.rules(w.header, http.StatusOK, w.at)
	limit := f.h.store.MaxMemoryObject()
	if !w.decision.Store || w.length > limit || len(h["Content-Range"]) > 0 {
		return nil
	}
	w.tap = f.h.store.NewTap(limit)
	w.typed, w.guesses = typed, !typed && needsSniff(w.header, http.StatusOK)
	return w
}

// capturePost looks whether a response to POST says that it answers later GETs (RFC
// 9110 §9.3.3), with a lifetime that the origin itself gave.
func (x *exchange) capturePost(status int, h http.Header) capture {
	h = canonicalNames(h)
	if status != http.StatusOK || len(h["Content-Location"]) != 1 {
		return nil
	}
	target := x.target()
	ref, err := url.Parse(h["Content-Location"][0])
	if err != nil || target.ResolveReference(ref).String() != target.String() {
		return nil
	}
	if w := x.passed.captureWhole(h, x.typed); w != nil && w.decision.Life.Source.Explicit() {
		return w
	}
	return nil
}

func (w *wholeCapture) add(b []byte, err error) {
	tapInto(w.tap, b, err)
	if w.guesses {
		w.came = min(w.came+len(b), sniffLength)
	}
}

func (w *wholeCapture) flushed() { w.guesses = false }

func (w *wholeCapture) drop() { w.tap.Drop() }

// store keeps the response as the one to a GET, if it's whole.
func (w *wholeCapture) store(x *exchange, r *http.Request) {
	body, f := w.tap.Take(), w.f
	if body == nil || r.Context().Err() != nil || w.length >= 0 && int64(len(body)) != w.length {
		return
	}
	if x.r.Method == http.MethodPost {
		f.seq = x.seq // what it has purged itself doesn't count
	} else if o := x.lookup().object; o != nil && !o.RequestedAt.Before(f.requestedAt) {
		return
	}
	header := rfc9111.StoredHeader(w.header, w.at, &f.route.policy)
	if !w.typed {
		settleType(header, http.StatusOK)
	}
	if w.came > 0 { // what the client was told
		header["Content-Type"] = []string{http.DetectContentType(body[:w.came])}
	}
	names := w.decision.VaryNames
	o := &store.Object{
		Key: f.variantKey(names), Primary: f.key, Status: http.StatusOK, Body: body,
		Header:    store.EncodeBlock(header, "Content-Length"),
		VaryNames: names, RequestedAt: f.requestedAt, Life: w.decision.Life, Length: strconv.Itoa(len(body)),
	}
	if len(names) > 0 {
		o.Selecting = string(f.route.spec.AppendSelecting(nil, names, f.asked))
	}
	o.Attached, o.Facts = attached(f.subject(w.header))
	if f.keep(o) {
		f.keepBySearch(o)
		x.rec.Cache.Stored, x.rec.Cache.NotStored = true, ""
	}
}
