package middleware

import (
	"net/http"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/store"
)

// identify makes the request's primary key. It returns the reason why it has
// none, or nothing.
func (x *exchange) identify() reason {
	x.in = cachekey.Input{
		Request: x.r, Zone: x.h.zone,
		Scheme: x.barrier.scheme, Host: x.barrier.host, Extra: x.barrier.extra,
	}
	memo := x.h.memo.applies(x)
	if memo {
		if key, ok := x.h.memo.get(x.r); ok {
			x.key, x.rec.Cache.Key = key, key
			return ""
		}
	}
	key, problem := x.route.spec.Primary(&x.in)
	if problem != cachekey.NoProblem {
		return reason(problem.String())
	}
	x.key = store.Key(key)
	x.rec.Cache.Key = key
	x.memoise = memo
	return ""
}

// getKey is the key under which a GET of the same target would be stored, for
// a request of another method.
func (x *exchange) getKey() (store.Key, bool) {
	in := x.getInput()
	key, problem := x.route.spec.Primary(&in)
	return store.Key(key), problem == cachekey.NoProblem
}

func (x *exchange) getInput() cachekey.Input {
	return cachekey.Input{
		Request: x.r, Zone: x.h.zone, Method: http.MethodGet,
		Scheme: x.barrier.scheme, Host: x.barrier.host, Extra: x.barrier.extra,
	}
}
