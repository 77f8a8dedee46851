package lb

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weirhttp/weir/internal/rfc9110"
)

var errBadTrailer = errors.New("a Trailer field with what is no field's name, or may not be a trailer")

// inTrailer reports whether a field is passed on when it comes after the content,
// to either side. A recipient may take it for one of the head, so nothing goes
// there that the proxy sees to, or a handler before it.
func (p *proxy) inTrailer(name string) bool {
	if !rfc9110.InTrailer(name) {
		return false
	}
	for _, own := range p.o.Protect {
		if alike(name, own) {
			return false
		}
	}
	if strings.IndexByte(name, '_') >= 0 { // as some origins read it
		name = strings.ReplaceAll(name, "_", "-")
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	return rfc9110.InTrailer(name) && !isForwarding(name)
}

// dropTrailers removes from a response what may not come after its content.
func (p *proxy) dropTrailers(res *http.Response) {
	for name := range res.Trailer {
		if !p.inTrailer(name) {
			delete(res.Trailer, name)
		}
	}
}

// answered is a response's body, whose end brings trailers.
type answered struct {
	io.ReadCloser
	res *http.Response
	p   *proxy
}

// Close closes the body. ReverseProxy takes the trailers after that.
func (a *answered) Close() error {
	err := a.ReadCloser.Close()
	a.p.dropTrailers(a.res)
	return err
}
