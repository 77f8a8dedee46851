package lb

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"sync"
)

// proxy is the handler that NewProxy returns.
type proxy struct {
	o    ProxyOptions
	send func(*http.Request) (*http.Response, error)
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
	p := &proxy{o: o, send: o.Transport.RoundTrip}
	if b, ok := o.Transport.(*Balancer); ok {
		p.send = b.send // it needn't keep the hook from waiting for clients: ours doesn't
	}
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
	if lastHop(w, r) {
		return
	}
	if err := unsendable(r); err != nil {
		p.o.ErrorHandler(w, r, &TransportError{Failure: FailureRequest, Err: err})
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
			f.hints.drop()
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

// unsendable returns what is wrong with a request's target. HTTP/1.0 has requests
// without a host.
func unsendable(r *http.Request) error {
	switch {
	case r.Host != "" && !validAuthority(r.Host):
		return errBadAuthority
	case r.URL.Opaque != "" || r.URL.Scheme != "" && r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return errOtherScheme // such as "mailto:x" or "http:admin"
	case !validTarget(r.URL):
		return errBadTarget
	}
	for name := range r.Trailer {
		if !isToken(name) {
			return errBadTrailer
		}
	}
	return nil
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

	answered answered
	writer   writer

	hints hints
	hint  func(code int, header textproto.MIMEHeader) error // passHint
}

var noLog = log.New(io.Discard, "", 0)

func (p *proxy) newForwarding() *forwarding {
	f := &forwarding{p: p}
	f.hint = f.passHint
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
	f.in, f.body, f.answered = nil, nil, answered{}
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
	out.Trailer = nil
	if out.Body != nil {
		f.body = newUploaded(out.Body, f.in, f.writer.ResponseWriter)
		out.Body = f.body
		if len(f.in.Trailer) > 0 {
			out.Trailer = f.body.trailers(f.in.Trailer, f.p.inTrailer)
		}
	}
	f.takeHints(out)
	res, err := f.p.send(out)
	if err == nil {
		f.answer = res.Body
	}
	f.hints.end(nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		// Before its end, what the server has read belongs to the request's body.
		f.writer.early = f.body == nil || f.body.done()
		return res, nil
	}
	f.head(res)
	return res, nil
}

// takeHints passes 1xx responses on in place of ReverseProxy, whose hook would write to
// the client on the transport's goroutine. An HTTP/1.0 client gets none at all (RFC 9110
// §15.2), and one that expects a 100 gets it from the server, as its body begins to be
// read: it would get two if that's first.
//
// The hook may be called when f has been let go of, or has another request.
func (f *forwarding) takeHints(out *http.Request) {
	trace := httptrace.ContextClientTrace(out.Context()) // ReverseProxy's, made for this request
	if trace == nil {
		return
	}
	var outer func(int, textproto.MIMEHeader) error
	if t := httptrace.ContextClientTrace(f.in.Context()); t != nil {
		outer = t.Got1xxResponse
	}
	if trace.Got1xxResponse = outer; !f.in.ProtoAtLeast(1, 1) {
		return
	}
	turn, continues := f.hints.begin(f.hint), len(f.in.Header["Expect"]) > 0
	out.Body = holdHints(&f.hints, turn, out.Body, f.in.Header)
	trace.Got1xxResponse = func(code int, header textproto.MIMEHeader) error {
		if code != http.StatusContinue || !continues {
			f.hints.add(turn, code, header)
		}
		if outer != nil {
			return outer(code, header)
		}
		return nil
	}
}

// passHint sends a 1xx response. The client's header is as it was after that.
func (f *forwarding) passHint(code int, header textproto.MIMEHeader) error {
	h := f.writer.Header()
	addFields(h, http.Header(header))
	f.writer.WriteHeader(code)
	f.writer.restore(h)
	return nil
}

// addFields adds the fields of one header to another's.
func addFields(h, more http.Header) {
	for name, values := range more {
		if before, ok := h[name]; ok {
			values = append(before[:len(before):len(before)], values...)
		}
		h[name] = values
	}
}

// head moves the response's header to the client's instead of copying it, and
// decides how the body is flushed.
func (f *forwarding) head(res *http.Response) {
	dropHopByHop(res.Header, nil)
	h := f.writer.Header()
	addFields(h, res.Header)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or the server would guess one
	}
	if f.body != nil && !f.body.done() && f.in.ProtoMajor == 1 {
		// Else the server would hold the head back until the rest has come.
		h["Connection"] = []string{"close"}
	}
	f.writer.expect(res)
	f.p.dropTrailers(res)
	if res.Body != nil && res.Body != http.NoBody {
		f.answered = answered{res.Body, res, f.p}
		res.Body = &f.answered
	}
	res.Header = nil
	res.ContentLength = 0 // or ReverseProxy would start a timer of its own
}
