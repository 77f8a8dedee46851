package lb

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An origin closes a kept connection just as the next request arrives. It sees
// that request once, and the caller learns that it was a kept connection.
// net/http's Transport would send all but the plain POSTs again.
func TestStaleConnectionIsReportedNotRepeated(t *testing.T) {
	for _, c := range []struct {
		name, method, body string
		header             []string
	}{
		{"GET", "GET", "", nil},
		{"HEAD", "HEAD", "", nil},
		{"PUT", "PUT", "data", nil},
		{"POST", "POST", "data", nil},
		{"POST without a body", "POST", "", nil},
		{"POST with Idempotency-Key", "POST", "data", []string{"Idempotency-Key", "1"}},
		{"POST with Idempotency-Key, without a body", "POST", "", []string{"Idempotency-Key", "1"}},
		{"POST with X-Idempotency-Key, without a body", "POST", "", []string{"X-Idempotency-Key", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var count atomic.Int32
			tr := transportTo(t, listen(t, keptOnce(&count)), TransportOptions{Scheme: "http"})
			first := send(tr, newRequest(t, "GET", ""), false)
			require.NoError(t, first.err)
			require.False(t, first.info.Reused)

			r := send(tr, newRequest(t, c.method, c.body, c.header...), false)
			assert.Equal(t, TransportError{Failure: FailureClosed, Reused: true, Wrote: true}, asTransportError(t, r.err))
			assert.True(t, r.err.(*TransportError).Stale())
			assert.EqualValues(t, 2, count.Load(), "requests that the origin saw")

			// The caller's second try is on a new connection.
			r = send(tr, newRequest(t, c.method, c.body, c.header...), true)
			require.NoError(t, r.err)
			assert.False(t, r.info.Reused)
			assert.EqualValues(t, 3, count.Load())
		})
	}
}

// Over HTTP/2, net/http's Transport repeats a request without a body up to six
// times when its stream is refused or its connection goes away.
func TestHTTP2IsNotRepeated(t *testing.T) {
	goAway := func(c net.Conn, last uint32) {
		data := binary.BigEndian.AppendUint32(nil, last)
		writeFrame(c, frame{kind: frameGoAway, data: append(data, 0, 0, 0, 0)})
	}
	for _, refusal := range []struct {
		name string
		f    func(c net.Conn, stream uint32)
		want Failure
	}{
		{"REFUSED_STREAM", func(c net.Conn, stream uint32) {
			writeFrame(c, frame{kind: frameReset, stream: stream, data: []byte{0, 0, 0, http2RefusedStream}})
		}, FailureRejected},
		{"PROTOCOL_ERROR", func(c net.Conn, stream uint32) {
			writeFrame(c, frame{kind: frameReset, stream: stream, data: []byte{0, 0, 0, http2ProtocolError}})
		}, FailureProtocol},
		{"GOAWAY before it", func(c net.Conn, stream uint32) { goAway(c, stream-2) }, FailureRejected},
		{"GOAWAY, then closed", func(c net.Conn, stream uint32) { goAway(c, stream); c.Close() }, FailureClosed},
		{"closed", func(c net.Conn, stream uint32) { c.Close() }, FailureClosed},
	} {
		for _, q := range []struct {
			name, method, body string
			header             []string
		}{
			{"GET", "GET", "", nil},
			{"POST", "POST", "data", nil},
			{"POST without a body", "POST", "", nil},
			{"POST with Idempotency-Key", "POST", "", []string{"Idempotency-Key", "1"}},
		} {
			t.Run(refusal.name+", "+q.name, func(t *testing.T) {
				var count atomic.Int32
				addr := listen(t, rawHTTP2(func(c net.Conn, conn int, head frame) {
					if count.Add(1) == 2 {
						refusal.f(c, head.stream)
						return
					}
					answer200(c, head.stream)
				}))
				tr := transportTo(t, addr, TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2})
				require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)

				r := send(tr, newRequest(t, q.method, q.body, q.header...), false)
				assert.Equal(t, TransportError{Failure: refusal.want, Reused: true, Wrote: true}, asTransportError(t, r.err))
				assert.EqualValues(t, 2, count.Load(), "requests that the origin saw")

				r = send(tr, newRequest(t, "GET", ""), false)
				require.NoError(t, r.err, "the transport lives on")
				assert.EqualValues(t, 3, count.Load())
			})
		}
	}
}
