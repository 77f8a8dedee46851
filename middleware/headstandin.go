package middleware

import (
	"maps"
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// standInForHead answers a HEAD whose origin failed with the head of the stale
// response that a GET would get (RFC 5861 §4, RFC 9111 §4.2.4), so that a monitor
// sees what visitors see. unreachable says that the origin didn't answer at all.
// It returns false if there is no such response.
func (p *passWriter) standInForHead(unreachable bool) bool {
	x := p.x.Load()
	if x == nil || p.wrote || x.r.Method != http.MethodHead || x.key == (store.Key{}) {
		return false
	}
	o := x.lookup().object
	if o == nil {
		return false
	}
	allowed := rfc9111.StaleIfError
	if unreachable {
		allowed = rfc9111.StaleOnDisconnect
	}
	now := time.Now()
	life := x.h.lifeOf(o, now)
	ok, why := allowed(life, x.asked, &x.route.policy, now)
	if !ok {
		return false
	}
	p.wrote, p.answered = true, true
	h := p.w.Header()
	clear(h) // the failed response's fields
	maps.Copy(h, p.outer)
	x.now = now
	x.respond(o, trace.StaleError, reason(why.String()), life.TTL(now))
	return true
}
