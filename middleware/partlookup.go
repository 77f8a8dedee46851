package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
)

// part returns the stored parts that answer x, and how long they are fresh, if
// nothing else is stored for it. Parts that aren't fresh, or don't have all of the
// one range that x asks for, don't count.
func (x *exchange) part(f *found) (*store.Object, time.Duration) {
	if !x.route.forwardsRng || f.object != nil || x.facts&hasRange == 0 {
		return nil, 0
	}
	o, p := x.h.parts(x.key)
	if o == nil || !x.mayShare(&o.Life) || len(p.names) > 0 && !x.selects(p.names, p.selecting) || !x.within(o, p.have) {
		return nil, 0
	}
	j := rfc9111.Judge(&o.Life, x.asked, &x.route.policy, x.now)
	if j.Use != rfc9111.UseFresh {
		return nil, 0
	}
	return o, j.TTL
}

// within reports whether x asks for one range of o, of which all is there. A
// suffix or an open range is one of the complete length.
func (x *exchange) within(o *store.Object, have spans) bool {
	asked, ok := x.ranges(http.StatusOK, o.Header)
	if !ok || len(asked) != 1 {
		return false
	}
	places, outcome := asked.Resolve(o.BodySize())
	return outcome == rfc9110.RangePartial && have.cover(spanOf(places[0]))
}

func spanOf(r rfc9110.Range) span { return span{r.Start, r.Start + r.Length} }
