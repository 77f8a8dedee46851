package lb

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"sync"
)

// proxy is the handler that NewProxy returns.
type proxy struct {
	o    ProxyOptions
	pool sync.Pool // of *forwarding
}

// NewProxy returns a handler that sends what it gets to o.Transport and the
// responses back: streamed, with trailers, 1xx responses and upgrades such as
// WebSocket. The request's Host stays the visitor's, and its query is passed on
// byte by byte.
//
// It is an [httputil.ReverseProxy] with what that leaves to its user. A response
// whose body breaks off is aborted with [http.ErrAbortHandler], with any server
// and without one, so that it never looks whole; so is the request of a client
// that is gone.
func NewProxy(o ProxyOptions) (http.Handler, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	p := &proxy{o: o}
	p.pool.New = func() any { return p.newForwarding() }
	return p, nil
}

// ServeHTTP passes one request on.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		w.Header()["Allow"] = []string{"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE"}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.Context().Value(http.ServerContextKey) == nil {
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, noServer))
	}
	f := p.pool.Get().(*forwarding)
	f.begin(w, p.clean(r))
	whole := false
	defer func() {
		if !whole { // a panic: the server's writer isn't ours any more then
			f.writer.stop()
			f.letGo()
		}
	}()
	f.rp.ServeHTTP(&f.writer, f.in)
	// Not after a panic: somebody may still hold it then.
	f.letGo()
	f.end()
	whole = true
	p.pool.Put(f)
}

// noServer stands for the server where there is none. Without one in the
// context, ReverseProxy wouldn't abort a response that breaks off.
var noServer = &http.Server{}

// forwarding is one request on its way. It is its ReverseProxy's transport too,
// which saves contexts, header copies and timers.
type forwarding struct {
	p      *proxy
	rp     httputil.ReverseProxy
	in     *http.Request
	body   *uploaded
	answer io.Closer // the response's body
	writer writer
}

var noLog = log.New(io.Discard, "", 0)

func (p *proxy) newForwarding() *forwarding {
	f := &forwarding{p: p}
	f.rp = httputil.ReverseProxy{
		Rewrite:      rewrite,
		Transport:    f,
		BufferPool:   &buffers,
		ErrorHandler: f.fail,
		ErrorLog:     noLog,
	}
	return f
}

func (f *forwarding) begin(w http.ResponseWriter, r *http.Request) {
	f.in = r
	f.writer.begin(w)
}

// end lets go of the request. What is left of its body doesn't keep the
// connection for long.
func (f *forwarding) end() {
	if f.body != nil && !f.body.done() && f.in.ProtoMajor == 1 {
		f.body.linger(http.NewResponseController(f.writer.ResponseWriter))
	}
	f.in, f.body = nil, nil
	f.writer.end()
}

// letGo closes the response's body, if that is open still: ReverseProxy doesn't
// where it fails to switch protocols, nor when a writer panics.
func (f *forwarding) letGo() {
	if f.answer != nil {
		f.answer.Close()
		f.answer = nil
	}
}

// rewrite restores what ReverseProxy would change. The rest is done in RoundTrip.
func rewrite(pr *httputil.ProxyRequest) {
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
}

// RoundTrip sends the request that ReverseProxy made.
func (f *forwarding) RoundTrip(out *http.Request) (*http.Response, error) {
	out.URL.Scheme = "http"
	if f.in.TLS != nil {
		out.URL.Scheme = "https"
	}
	out.URL.Host = f.in.Host
	f.p.forwarded(f.in, out.Header)
	f.p.via(f.in, out.Header)
	out.Trailer = f.in.Trailer // the server fills it when the body has ended
	if out.Body != nil {
		f.body = newUploaded(out.Body)
		out.Body = f.body
	}
	res, err := f.p.o.Transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	f.answer = res.Body
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res, nil
	}
	f.head(res)
	return res, nil
}

// head moves the response's header to the client's instead of copying it, and
// decides how the body is flushed.
func (f *forwarding) head(res *http.Response) {
	dropHopByHop(res.Header, nil)
	h := f.writer.Header()
	f.writer.restore(h)
	for name, values := range res.Header {
		if before, ok := h[name]; ok {
			values = append(before[:len(before):len(before)], values...)
		}
		h[name] = values
	}
	if f.body != nil && !f.body.done() && f.in.ProtoMajor == 1 {
		// Else the server would hold the head back until the rest has come.
		h["Connection"] = []string{"close"}
	}
	f.writer.expect(res)
	res.Header = nil
	res.ContentLength = 0 // or ReverseProxy would start a timer of its own
}
