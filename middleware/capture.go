package middleware

import (
	"context"
	"net/http"

	"github.com/weirhttp/weir/store"
)

// capture keeps a copy of a response that is handed on. add gets what the client took
// of its body, flushed comes before what was added is flushed, and store stores it
// after the handler has returned. drop gives its memory back; it comes last, whatever
// came before.
type capture interface {
	add(b []byte, err error)
	flushed()
	store(x *exchange, r *http.Request)
	drop()
}

// capturing reports whether the answer to x may be captured, not only its head.
func (x *exchange) capturing() bool {
	return x.r.Method == http.MethodPost || x.r.Method == http.MethodGet
}

// capture looks at the final head of the answer to x, and returns what is to keep a
// copy of it, or nil.
func (x *exchange) capture(status int, h http.Header) capture {
	switch x.r.Method {
	case http.MethodPost:
		return x.capturePost(status, h)
	case http.MethodGet:
		return x.capturePart(status, h)
	}
	return nil
}

// tapInto adds to a copy. What the client didn't take isn't kept either.
func tapInto(t *store.Tap, b []byte, err error) {
	if err != nil {
		t.Drop()
		return
	}
	t.Append(b)
}

// onServer returns ctx as a server's: httputil.ReverseProxy tells of a broken body
// only there, and otherwise half of it would look whole.
func onServer(ctx context.Context) context.Context {
	if ctx.Value(http.ServerContextKey) != nil {
		return ctx
	}
	return context.WithValue(ctx, http.ServerContextKey, &http.Server{})
}
