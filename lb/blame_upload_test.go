package lb

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// A connection that is lost while the visitor is what the rest of the request is waited
// for says nothing of the origin, wherever in the response it breaks off. It does if the
// body was sent, or if the origin never asked for it.
func TestLossDuringTheUpload(t *testing.T) {
	const cutHead, cutBody = "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
	const held, sent, expected = "held", "sent", "expected"
	for _, tc := range []struct {
		name, answer, upload string
		kept                 bool // the connection had a request before
		want                 TransportError
	}{
		{"before the head", "", held, false, TransportError{Failure: FailureUpload, Wrote: true}},
		{"inside the head", cutHead, held, false, TransportError{Failure: FailureUpload, Wrote: true}},
		{"after a 100 (Continue)", "HTTP/1.1 100 Continue\r\n\r\n", held, false, TransportError{Failure: FailureUpload, Wrote: true}},
		{"inside the body", cutBody, held, false, TransportError{Failure: FailureUpload, Wrote: true}},
		{"before the head, sent", "", sent, false, TransportError{Failure: FailureClosed, Wrote: true}},
		{"inside the head, sent", cutHead, sent, false, TransportError{Failure: FailureHeadCut, Wrote: true}},
		{"inside the body, sent", cutBody, sent, false, TransportError{Failure: FailureBodyCut, Wrote: true}},
		{"before the head, not asked for", "", expected, false, TransportError{Failure: FailureClosed, Wrote: true}},
		{"before the head, kept connection", "", held, true, TransportError{Failure: FailureClosed, Reused: true, Wrote: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testnet.NewPipeListener()
				defer l.Close()
				lost := make(chan struct{})
				go func() {
					c, err := l.Accept()
					if err != nil {
						return
					}
					if tc.kept {
						readHead(c)
						io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
					readHead(c)
					if tc.upload != expected {
						io.ReadFull(c, make([]byte, 4))
					}
					io.WriteString(c, tc.answer)
					c.Close()
					close(lost)
				}()
				tr, err := newTransport("192.0.2.1", TransportOptions{Scheme: "http", DialContext: l.DialContext})
				require.NoError(t, err)
				defer tr.Close()
				if tc.kept {
					require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
				}
				body, visitor := io.Pipe()
				defer visitor.Close()
				req := newRequest(t, "POST", "")
				req.Body, req.ContentLength = body, 10
				switch tc.upload {
				case sent:
					req.ContentLength = 4
					req.Body = io.NopCloser(strings.NewReader("part"))
				case held: // net/http waits for more when the origin has gone
					go func() { io.WriteString(visitor, "part"); <-lost; io.WriteString(visitor, "more") }()
				case expected:
					req.Header.Set("Expect", "100-continue")
				}
				err = send(tr, req, false).err
				got := asTransportError(t, err)
				assert.Equal(t, tc.want, got)
				assert.Equal(t, tc.want.Failure != FailureUpload, got.Failure.OriginAtFault())
				assert.Equal(t, tc.kept, err.(*TransportError).Stale())
			})
		})
	}
}
