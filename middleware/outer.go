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
	var before [len(listsOfOuter)][]string
	for i, name := range listsOfOuter {
		before[i] = h[name]
	}
	room = b.CopyTo(h, ownFields)
	for i, name := range listsOfOuter {
		joinOuter(h, name, before[i])
	}
	return room
}

// listsOfOuter are the fields that are joined.
var listsOfOuter = [...]string{"Vary", "Set-Cookie", "Link"}

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
