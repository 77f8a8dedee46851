package middleware

import (
	"net/http"
	"slices"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// copyHeader puts a response's fields into h, which may hold fields that outer
// handlers set before they called the cache. As if the wrapped handler had
// added its own, those that make lists are joined: an outer Vary: Origin or
// cookie mustn't get lost. All others are replaced.
func copyHeader(h http.Header, b store.Block) (room []string) {
	if len(h) == 0 {
		return b.CopyTo(h, ownFields)
	}
	delete(h, trace.HeaderCacheStatus) // what is there isn't from an upstream cache
	vary, cookies, links := h["Vary"], h["Set-Cookie"], h["Link"]
	room = b.CopyTo(h, ownFields)
	joinOuter(h, "Vary", vary)
	joinOuter(h, "Set-Cookie", cookies)
	joinOuter(h, "Link", links)
	return room
}

// ownHeader returns what the wrapped handler itself set: h without what was in
// it before.
func ownHeader(h, outer http.Header) http.Header {
	if len(outer) == 0 {
		return h
	}
	own := make(http.Header, len(h))
	for name, values := range h {
		before := outer[name]
		switch {
		case len(before) == 0 || len(values) < len(before) || !slices.Equal(values[:len(before)], before):
			own[name] = values
		case len(values) > len(before):
			own[name] = values[len(before):]
		}
	}
	return own
}

// joinOuter puts the values that were there before in front of the new ones,
// each value once.
func joinOuter(h http.Header, name string, outer []string) {
	inner := h[name]
	if len(outer) == 0 || slices.Equal(inner, outer) {
		return
	}
	joined := slices.Clone(outer)
	for _, v := range inner {
		if !slices.Contains(joined, v) {
			joined = append(joined, v)
		}
	}
	h[name] = joined
}
