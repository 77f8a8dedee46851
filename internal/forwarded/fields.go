package forwarded

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// fields are those by which proxies, content delivery networks and load balancers
// say that a request isn't the peer's own, beside all that begin with a prefix.
var (
	fields = map[string]bool{
		"Ali-Cdn-Real-Ip":           true,
		"Cdn-Loop":                  true,
		"Cf-Connecting-Ip":          true,
		"Cf-Connecting-Ipv6":        true,
		"Client-Ip":                 true,
		"Cloudfront-Viewer-Address": true,
		"Do-Connecting-Ip":          true,
		"Fastly-Client-Ip":          true,
		"Fastly-Ff":                 true,
		"Fly-Client-Ip":             true,
		"Forwarded":                 true,
		"Forwarded-For":             true,
		"Forwarded-For-Ip":          true,
		"Front-End-Https":           true,
		"Proxy-Client-Ip":           true,
		"True-Client-Ip":            true,
		"Via":                       true,
		"Wl-Proxy-Client-Ip":        true,
		"X-Appengine-User-Ip":       true,
		"X-Arr-Log-Id":              true,
		"X-Arr-Ssl":                 true,
		"X-Azure-Clientip":          true,
		"X-Azure-Fdid":              true,
		"X-Azure-Socketip":          true,
		"X-Client-Ip":               true,
		"X-Cluster-Client-Ip":       true,
		"X-Coming-From":             true,
		"X-Forward":                 true,
		"X-Forward-For":             true,
		"X-Nf-Client-Connection-Ip": true,
		"X-Nginx-Proxy":             true,
		"X-Originating-Ip":          true,
		"X-Proxyuser-Ip":            true,
		"X-Real-Ip":                 true,
		"X-Remote-Addr":             true,
		"X-Remote-Ip":               true,
		"X-Scheme":                  true,
		"X-Url-Scheme":              true,
		"X-Varnish":                 true,
		"X-Vercel-Forwarded-For":    true,
	}
	prefixes = [...]string{"X-Forwarded", "X-Original", "X-Envoy-"}
)

// Says reports whether a field of that name, in canonical form, says that a request
// was forwarded.
func Says(name string) bool {
	if fields[name] {
		return true
	}
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// Field returns the name of a field of h that says that the request was forwarded, or
// "". One that Connection names counts too: somebody on the way may have removed it.
func Field(h http.Header) string {
	for name := range h {
		if Says(name) {
			return name
		}
	}
	for option := range field.Members(h["Connection"]) {
		if name := http.CanonicalHeaderKey(option); Says(name) {
			return name
		}
	}
	return ""
}
