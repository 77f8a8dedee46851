package lb

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		{"inside the body", cutBody, held, false, TransportError{Failure: FailureUpload, Wrote: true}},
		{"nonsense", "nonsense\r\n\r\n", held, false, TransportError{Failure: FailureProtocol, Wrote: true}},
		{"before the head, sent", "", sent, false, TransportError{Failure: FailureClosed, Wrote: true}},
		{"inside the head, sent", cutHead, sent, false, TransportError{Failure: FailureHeadCut, Wrote: true}},
		{"inside the body, sent", cutBody, sent, false, TransportError{Failure: FailureBodyCut, Wrote: true}},
		{"before the head, not asked for", "", expected, false, TransportError{Failure: FailureClosed, Wrote: true}},
		{"before the head, kept connection", "", held, true, TransportError{Failure: FailureClosed, Reused: true, Wrote: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr := listen(t, func(c net.Conn) {
				if tc.kept {
					readHead(c)
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
				readHead(c)
				if tc.upload != expected {
					io.ReadFull(c, make([]byte, 4))
				}
				io.WriteString(c, tc.answer)
			})
			tr := transportTo(t, addr, TransportOptions{Scheme: "http"})
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
				go func() { io.WriteString(visitor, "part"); visitor.Close() }()
			case held:
				go io.WriteString(visitor, "part")
			case expected:
				req.Header.Set("Expect", "100-continue")
			}
			err := send(tr, req, false).err
			got := asTransportError(t, err)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want.Failure != FailureUpload, got.Failure.OriginAtFault())
			assert.Equal(t, tc.kept, err.(*TransportError).Stale())
		})
	}
}
