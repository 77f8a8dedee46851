package lb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Failure is why an attempt at an origin failed.
type Failure uint8

const (
	// FailureNone: it didn't.
	FailureNone Failure = iota
	// FailureResolve: the origin's name has no address.
	FailureResolve
	// FailureDial: no connection, such as one refused.
	FailureDial
	// FailureDialTimeout: no connection in time.
	FailureDialTimeout
	// FailureTLS: the handshake failed, such as for a wrong certificate.
	FailureTLS
	// FailureTLSTimeout: the handshake took too long.
	FailureTLSTimeout
	// FailureClosed: the connection was lost before a byte of the response.
	FailureClosed
	// FailureRejected: an HTTP/2 origin says that it hasn't touched the request
	// (REFUSED_STREAM, or GOAWAY before it).
	FailureRejected
	// FailureSendTimeout: the origin doesn't take the request's body.
	FailureSendTimeout
	// FailureHeadTimeout: no response's head in time.
	FailureHeadTimeout
	// FailureHeadCut: the connection was lost inside the response's head.
	FailureHeadCut
	// FailureProtocol: what came isn't HTTP, or has too long a head; or an HTTP/2 origin
	// says that the request is malformed.
	FailureProtocol
	// FailureBodyTimeout: the origin fell silent inside the response's body.
	FailureBodyTimeout
	// FailureBodyCut: the connection was lost inside the response's body.
	FailureBodyCut
	// FailureCanceled: the visitor is gone. Not the origin's fault.
	FailureCanceled
	// FailureDeadline: the request's own deadline passed.
	FailureDeadline
	// FailureRequest: the request's body couldn't be read, or the request can't
	// be sent. Not the origin's fault.
	FailureRequest
	// FailureShutdown: the transport was closed.
	FailureShutdown
	// FailureUpload: the connection was lost while the rest of the request's body
	// was to come from the visitor. As a rule the origin gave up waiting for it: not
	// its fault.
	FailureUpload
)

var failureNames = []string{
	"none", "name not resolved", "connection refused", "connect timeout", "TLS failure", "TLS timeout",
	"connection lost before the response", "rejected unprocessed", "request body not taken", "response head timeout",
	"response head cut", "protocol error", "response body timeout", "response body cut",
	"canceled by the client", "deadline passed", "request failed", "shut down",
	"connection lost during the upload",
}

// String returns the reason in a few words.
func (f Failure) String() string { return name(failureNames, int(f)) }

// Timeout reports whether time ran out.
func (f Failure) Timeout() bool {
	switch f {
	case FailureDialTimeout, FailureTLSTimeout, FailureSendTimeout, FailureHeadTimeout, FailureBodyTimeout, FailureDeadline:
		return true
	}
	return false
}

// OriginAtFault reports whether the failure speaks against the origin.
func (f Failure) OriginAtFault() bool {
	switch f {
	case FailureNone, FailureCanceled, FailureDeadline, FailureRequest, FailureShutdown, FailureUpload:
		return false
	}
	return true
}

// TransportError is an attempt at an origin that failed, before the response's
// head or inside its body.
type TransportError struct {
	// Failure is the kind.
	Failure Failure
	// Origin is the origin's host and port.
	Origin string
	// Reused says that the connection had carried a request before.
	Reused bool
	// Wrote says that some of the request may have been sent. If not, the origin
	// can't have seen it.
	Wrote bool
	// Err is the cause.
	Err error

	late    bool // a kept connection worked when the request was sent
	excused bool // it may be the request's fault, or another's
}

// Error returns origin, kind and cause in one line.
func (e *TransportError) Error() string {
	return fmt.Sprintf("lb: %s: %v: %v", e.Origin, e.Failure, e.Err)
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// Timeout reports whether time ran out.
func (e *TransportError) Timeout() bool { return e.Failure.Timeout() }

// Stale reports whether a kept connection turned out to be closed: the origin
// may not have seen the request, or may have. A request that may be repeated
// deserves one more attempt at the same origin. It isn't stale if it was lost later
// than 50 ms, twice the time that it took to connect, and no more than a second,
// after the request: that is an origin which had begun to work.
func (e *TransportError) Stale() bool { return e.Reused && e.Failure == FailureClosed && !e.late }

// blameless reports whether the failure doesn't speak against the origin, whatever its
// kind says: a kept connection that it closes is its right, also with an orderly GOAWAY.
func (e *TransportError) blameless() bool {
	return e.excused || e.Stale() || e.Reused && e.Failure == FailureRejected && isGoaway(e.Err)
}

// resets reports whether it was this side that gave the request up.
func (e *TransportError) resets() bool {
	switch e.Failure {
	case FailureCanceled, FailureDeadline, FailureRequest, FailureSendTimeout, FailureHeadTimeout, FailureBodyTimeout:
		return true
	}
	return false
}

// A kept connection that was closed is noticed within a round trip; connecting
// takes one, too.
const (
	staleWithin = 50 * time.Millisecond
	staleAtMost = time.Second
)

// staleFor returns for how long after a request the loss of a kept connection
// counts as an old one.
func staleFor(connect time.Duration) time.Duration {
	return min(staleWithin+2*connect, staleAtMost)
}

// unreached reports whether the attempt reached no process of the origin: its name
// has no address, or its host refused to connect. A handshake that hangs and a
// stream that is refused are work for it.
func (e *TransportError) unreached() bool {
	return e.Failure == FailureResolve || e.Failure == FailureDial
}

// FailureOf returns the kind of the first [TransportError] in err's chain. Else
// it judges by the cause; what it doesn't know is [FailureProtocol].
func FailureOf(err error) Failure {
	if err == nil {
		return FailureNone
	}
	if te, ok := errors.AsType[*TransportError](err); ok {
		return te.Failure
	}
	switch {
	case errors.Is(err, context.Canceled):
		return FailureCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return FailureDeadline
	case isLost(err):
		return FailureClosed
	}
	return FailureProtocol
}

// dialFailure returns the kind of a dial's error.
func dialFailure(err error) Failure {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return FailureResolve
	}
	if isTimeout(err) {
		return FailureDialTimeout
	}
	return FailureDial
}

// tlsFailure returns the kind of a handshake's error.
func tlsFailure(err error) Failure {
	if isTimeout(err) {
		return FailureTLSTimeout
	}
	return FailureTLS
}

// isTimeout reports whether err says that time ran out.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// isLost reports whether err is the end of a connection rather than nonsense on
// it.
func isLost(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.AlertError](err)
	return ok
}

// streamError has the form of net/http's HTTP/2 stream errors, which is what
// errors.As wants to fill it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

// RFC 9113 §7.
const (
	http2ProtocolError = 1
	http2RefusedStream = 7
)

// isRejected reports whether an HTTP/2 origin promised not to have processed the
// request (RFC 9113 §8.7).
func isRejected(err error) bool {
	var se streamError
	if errors.As(err, &se) {
		return se.Code == http2RefusedStream
	}
	return isGoaway(err)
}

// isRefusedByPeer reports whether an HTTP/2 origin ended a request's stream as a
// malformed one: that is HTTP/2's 400 (RFC 9113 §8.1.1). net/http gives the same code
// to a malformed response.
func isRefusedByPeer(err error) bool {
	var se streamError
	return errors.As(err, &se) && se.Code == http2ProtocolError && se.Cause != nil && se.Cause.Error() == "received from peer"
}

// isGoaway reports whether an HTTP/2 connection ended in good order before it took
// the request.
func isGoaway(err error) bool { return strings.Contains(err.Error(), "graceful shutdown GOAWAY") }
