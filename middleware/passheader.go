package middleware

import (
	"maps"
	"net/http"
	"strings"

	"github.com/weirhttp/weir/trace"
)

// Where only what the wrapped handler itself says counts, it gets a header map of
// its own, as a fetch does. In the client's map, which outer handlers have written to
// before, a field that both set to the same couldn't be told from one that the
// handler never set.

// keepApart gives the handler a map of its own, unless the client's is empty.
func (p *passWriter) keepApart() {
	if h := p.w.Header(); len(h) > 0 {
		p.outer, p.own = h.Clone(), make(http.Header)
	}
}

// Header returns the handler's header map: its own, or else the client's.
func (p *passWriter) Header() http.Header {
	if p.own != nil {
		return p.own
	}
	return p.w.Header()
}

// expose puts the handler's own fields into the client's map, beside those of outer
// handlers, as copyHeader does with a stored response's.
func (p *passWriter) expose() {
	renameSpaced(p.Header())
	if p.own == nil {
		return
	}
	h := p.w.Header()
	clear(h) // it may have the fields of an interim response
	maps.Copy(h, p.outer)
	delete(h, trace.HeaderCacheStatus)
	maps.Copy(h, p.own)
	for _, name := range listsOfOuter {
		joinOuter(h, name, p.outer[name])
	}
}

// exposeTrailers does the same with the trailer fields, which are set after the body.
func (p *passWriter) exposeTrailers() {
	if p.own == nil {
		return
	}
	h := p.w.Header()
	for _, name := range announced(p.own["Trailer"]) {
		if values, ok := p.own[name]; ok {
			h[name] = values
		}
	}
	for name, values := range p.own {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			h[name] = values
		}
	}
}
