package middleware

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// outlive keeps the request from ending while a fetch that it started still runs
// the wrapped handler, if outer handlers have put values into the request's context:
// a router's pooled state, a transaction or a span are theirs again when the request
// has ended, and the handler uses them. The client has its answer by then. Without
// such values, a request ends when its client has been answered.
func (x *exchange) outlive() {
	f := x.hold
	if f == nil {
		return
	}
	select {
	case <-f.returned:
		return
	default:
	}
	if onlyServerValues(x.r.Context()) {
		return
	}
	switch {
	case x.aborted:
		reset(x.w) // net/http would close it only after the handler's end
	case x.headSent:
		x.flush()
	}
	<-f.returned
}

// onlyServerValues reports whether a context is one that net/http makes for a
// request, with no values but its own. The context package tells by its contexts'
// text; anything unknown counts as a value.
func onlyServerValues(ctx context.Context) bool {
	s, ok := ctx.(fmt.Stringer)
	if !ok {
		return false
	}
	rest, ok := strings.CutPrefix(s.String(), "context.Background")
	for ok && rest != "" {
		rest, ok = cutServerPart(rest)
	}
	return ok
}

// cutServerPart cuts a part that net/http adds off the front.
func cutServerPart(s string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, ".WithCancel"); ok {
		return rest, true
	}
	for _, key := range [...]any{http.ServerContextKey, http.LocalAddrContextKey} {
		if rest, ok = strings.CutPrefix(s, ".WithValue("+key.(fmt.Stringer).String()+", "); ok {
			_, rest, ok = strings.Cut(rest, ")")
			return rest, ok
		}
	}
	return s, false
}
