package lb

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// muteFor is for how long wishes for an upgrade are passed over at an origin that
// said nothing over HTTP/1.
const muteFor = time.Minute

// silence remembers what came of HTTP/1 on connections whose TLS chose no protocol.
// An origin with HTTP/2 only may say that it has no HTTP/1 by hanging up, and no
// other way: crypto/tls's servers do. But one that took the request may hang up too,
// so the request that finds it out is sent nowhere else. Those that come after it
// are, without their wish, to an origin that takes HTTP/2.
type silence struct {
	spoke atomic.Bool  // there was an answer once
	until atomic.Int64 // nanoseconds since 1970: there was none before
}

// mute reports whether HTTP/1 isn't worth trying for an upgrade.
func (s *silence) mute(now time.Time) bool { return now.UnixNano() < s.until.Load() }

// answered notes that an answer came on c.
func (s *silence) answered(c *conn) {
	if c.silent() && !s.spoke.Load() {
		s.spoke.Store(true)
	}
}

// failed notes that a wish for an upgrade failed on c, and how. It reports whether
// the origin may have no HTTP/1, which is no fault of its own.
func (s *silence) failed(c *conn, e *TransportError, now time.Time) bool {
	if !c.silent() || s.spoke.Load() || e.Failure != FailureClosed && e.Failure != FailureProtocol {
		return false
	}
	s.until.Store(now.Add(muteFor).UnixNano())
	return true
}

// withoutUpgrade returns h without the wish for another protocol, which HTTP/2
// doesn't have (RFC 9113 §8.6). A server may pass over it (RFC 9110 §7.8).
func withoutUpgrade(h http.Header) http.Header {
	h = maps.Clone(h)
	for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
		delete(h, name)
	}
	return h
}

// isUpgrade reports whether a response's body is a tunnel.
func isUpgrade(res *http.Response) bool {
	_, ok := res.Body.(io.Writer)
	return ok && res.StatusCode == http.StatusSwitchingProtocols
}

// asksFor reports whether a request's Upgrade field has the protocol
// (RFC 9110 §7.8).
func asksFor(req *http.Request, protocol string) bool {
	for _, line := range req.Header["Upgrade"] {
		for asked := range strings.SplitSeq(line, ",") {
			if asked = strings.TrimSpace(asked); asked != "" && strings.EqualFold(asked, protocol) {
				return true
			}
		}
	}
	return false
}
