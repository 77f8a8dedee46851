package rfc9111

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// heuristic guesses a lifetime (RFC 9111 §4.2.2): a tenth of the time since the
// last modification, bounded. 0 if the response must not or should not get one.
func heuristic(ex *Exchange, d *Directives, p *Policy) time.Duration {
	limit := bound(p.HeuristicMax, DefaultHeuristicMax)
	if limit < 0 || d.NoCache || pragmaNoCache(ex.Header, d) {
		return 0
	}
	if p.HeuristicForAll {
		if !rfc9110.HeuristicallyCacheable(ex.Status) && !d.Public {
			return 0
		}
	} else {
		t := MediaType(ex.Header)
		known, fits := ExtensionFits(ex.Path, t)
		if ex.Status != http.StatusOK && ex.Status != http.StatusNonAuthoritativeInfo || !IsStaticType(t) || known && !fits {
			return 0
		}
	}
	lines := ex.Header["Last-Modified"]
	if len(lines) != 1 {
		return 0
	}
	modified, ok := field.ParseDate(lines[0], ex.ReceivedAt)
	if !ok {
		return 0
	}
	from := ex.ReceivedAt
	if earliest, _, ok := dates(ex.Header, ex.ReceivedAt); ok {
		from = earliest
	}
	return min(max(0, from.Sub(modified)/10), limit)
}

// pragmaNoCache reports whether a response without Cache-Control says Pragma:
// no-cache. It means nothing in a response (§5.4), but whoever sends it doesn't
// want a guess.
func pragmaNoCache(h http.Header, d *Directives) bool {
	if d.Targeted || len(h["Cache-Control"]) > 0 {
		return false
	}
	for m := range field.Members(h["Pragma"]) {
		if field.EqualFold(m, "no-cache") {
			return true
		}
	}
	return false
}
