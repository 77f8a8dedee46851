package lb

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// lingerTime is how long a client may go on sending a body that nobody wants.
// Closing at once could keep it from reading the response.
const lingerTime = time.Second

var (
	errUploadOver = errors.New("the response is complete")
	longAgo       = time.Unix(1, 0)
)

// uploaded is a request's body that knows whether its end has come.
type uploaded struct {
	body io.ReadCloser
	turn chan struct{} // holds whoever reads
	in   *http.Request // the client's
	w    http.ResponseWriter
	eof  atomic.Bool
	over atomic.Bool
	cut  atomic.Bool // by interrupt

	// The server fills came at the body's end. What of it is passed on is copied to
	// trailer.
	came, trailer http.Header
	keep          func(name string) bool
}

// newUploaded makes one of the body of in, which w answers.
func newUploaded(body io.ReadCloser, in *http.Request, w http.ResponseWriter) *uploaded {
	return &uploaded{body: body, turn: make(chan struct{}, 1), in: in, w: w}
}

// trailers takes over what is passed on of the trailers, and returns the map in
// which they will be; nil for none.
func (u *uploaded) trailers(came http.Header, keep func(name string) bool) http.Header {
	u.came, u.keep = came, keep
	for name := range came {
		if keep(name) {
			if u.trailer == nil {
				u.trailer = make(http.Header, len(came))
			}
			u.trailer[name] = nil
		}
	}
	return u.trailer
}

// copyTrailers is called at the body's end.
func (u *uploaded) copyTrailers() {
	if u.trailer == nil {
		return
	}
	for name, values := range u.came {
		if u.keep(name) {
			u.trailer[name] = values
		}
	}
}

func (u *uploaded) Read(p []byte) (int, error) {
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	if u.over.Load() {
		return 0, errUploadOver
	}
	n, err := u.body.Read(p)
	if err == io.EOF {
		if !u.eof.Load() {
			u.copyTrailers()
		}
		u.eof.Store(true)
	}
	return n, err
}

func (u *uploaded) Close() error { return u.body.Close() }

// interrupt ends a Read that waits for the client. There may be no way to, such as
// where a middleware hides the server's writer. The server takes the client for gone
// then, and cancels the request.
func (u *uploaded) interrupt() {
	u.cut.Store(true)
	if u.in.ProtoMajor == 1 { // where Close waits for the Read
		http.NewResponseController(u.w).SetReadDeadline(longAgo)
		return
	}
	u.in.Body.Close() // body's own does nothing
}

func (u *uploaded) done() bool { return u.eof.Load() }

// linger limits for how long the server waits for the rest of the body when the
// handler is done. A read that is still under way has to end before: on its
// account the server would lift the limit again.
func (u *uploaded) linger(rc *http.ResponseController) {
	u.over.Store(true)
	if rc.SetReadDeadline(longAgo) != nil {
		return
	}
	late := time.NewTimer(lingerTime) // a reader in between may know no deadlines
	defer late.Stop()
	select {
	case u.turn <- struct{}{}:
		<-u.turn
	case <-late.C:
	}
	rc.SetReadDeadline(time.Now().Add(lingerTime))
}
