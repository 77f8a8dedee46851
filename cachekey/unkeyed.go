package cachekey

import "net/http"

// CookieUnkeyed reports whether a cookie of this name reaches the origin without
// being in the key, so that it may shape a response that others get.
func (s *Spec) CookieUnkeyed(name string) bool {
	if s.dropOtherCookies || s.keysCookie(name) {
		return false
	}
	for i := range s.headers {
		if s.headers[i].lower == "cookie" {
			return false
		}
	}
	return true
}

// URLOnly reports whether the key depends on nothing but the zone, the scheme, the
// host, the method class and the URL, and never on header fields or cookies.
func (s *Spec) URLOnly() bool { return len(s.headers) == 0 && len(s.cookies) == 0 }

// KeyedQuery returns what the key keeps of the request's query, as it would be
// sent to the origin: all of it unless parameters are left out.
func (s *Spec) KeyedQuery(r *http.Request) string {
	if s.query.mode == QueryAll || r.URL.RawQuery == "" {
		return r.URL.RawQuery
	}
	var d Reduced
	d.reduceQuery(&s.query, r.URL.RawQuery)
	return d.Query
}
