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
	return s.query.kept(r.URL.RawQuery)
}

// kept is the query without what the key leaves out.
func (q *queryRule) kept(query string) string {
	if q.mode == QueryAll || query == "" {
		return query
	}
	var d Reduced
	d.reduceQuery(q, query)
	return d.Query
}
