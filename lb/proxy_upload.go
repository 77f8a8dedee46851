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
	eof  atomic.Bool
	over atomic.Bool
}

func newUploaded(body io.ReadCloser) *uploaded {
	return &uploaded{body: body, turn: make(chan struct{}, 1)}
}

func (u *uploaded) Read(p []byte) (int, error) {
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	if u.over.Load() {
		return 0, errUploadOver
	}
	n, err := u.body.Read(p)
	if err == io.EOF {
		u.eof.Store(true)
	}
	return n, err
}

func (u *uploaded) Close() error { return u.body.Close() }

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
