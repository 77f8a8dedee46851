package middleware

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
)

// commit ends a body that the handler finished: it's stored if it's whole and
// may be, and then its readers learn of the end.
func (f *fetch) commit() {
	hd := f.head
	hd.trailer = trailersOf(f.header, hd.announced)
	if hd.notStored == "" {
		hd.discarded = f.storeBody()
	}
	// A short body fails here, and every reader's connection with it.
	if hd.fill.End() != nil || hd.discarded != "" {
		f.fail()
	}
}

// storeBody stores the response, or says why not.
func (f *fetch) storeBody() reason {
	hd := f.head
	if kept, tooLarge := hd.fill.Kept(); !kept && tooLarge {
		return whyTooLarge
	} else if !kept {
		if r := hd.fill.SpillFailed(); r != store.Kept {
			return reason(r.String())
		}
		return whyNoMemory
	}
	names := hd.decision.VaryNames
	o := &store.Object{
		Key: f.variantKey(names), Primary: f.key, Status: hd.status,
		Header: hd.common, Trailer: store.EncodeBlock(hd.trailer),
		VaryNames: names, Selecting: hd.selecting,
		RequestedAt: f.requestedAt, Attached: hd.subject, Facts: hd.facts, Life: hd.decision.Life,
	}
	if why := f.keepWith(hd.fill, o); why != "" {
		return why
	}
	if !hd.fill.Spilled() { // a second name for a body on disk would be a second copy
		f.keepByLanguage(o)
	}
	f.keepBySearch(o)
	return ""
}

// trailersOf returns the trailer fields that the handler set after the body.
func trailersOf(h http.Header, announced []string) http.Header {
	var t http.Header
	add := func(name string, values []string) {
		if t == nil {
			t = make(http.Header)
		}
		t[name] = append(t[name], values...)
	}
	for _, name := range announced {
		if values := h[name]; len(values) > 0 && rfc9110.InTrailer(name) {
			add(name, values)
		}
	}
	for name, values := range h {
		if rest, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if key := http.CanonicalHeaderKey(rest); rfc9110.InTrailer(key) {
				add(key, values)
			}
		}
	}
	return t
}
