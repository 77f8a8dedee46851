package purge

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weirhttp/weir/internal/forwarded"
)

// ErrNoCredentials is what an authoriser returns, wrapped or not, when the request
// has no valid credentials. It is answered with 401, any other error with 403.
var ErrNoCredentials = errors.New("no valid credentials")

// BearerToken authorises requests with "Authorization: Bearer " and the token. It
// compares in constant time. An empty token authorises nobody, nor does one that can't
// be sent: with spaces around it, or bytes that aren't visible ASCII.
func BearerToken(token string) func(*http.Request) (string, error) {
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) (string, error) {
		lines := r.Header["Authorization"]
		if token == "" || len(lines) != 1 {
			return "", ErrNoCredentials
		}
		scheme, sent, _ := strings.Cut(lines[0], " ")
		got := sha256.Sum256([]byte(strings.TrimLeft(sent, " ")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
			return "", ErrNoCredentials
		}
		return "bearer", nil
	}
}

// FromPrefixes authorises requests whose client has an address in one of the
// networks: the connection's, as [http.Request].RemoteAddr has it. A request that
// says it was forwarded (X-Forwarded-For, Forwarded, X-Real-IP, Via and such) isn't
// its peer's own and is refused, but for what [middleware.Options].TrustedProxies account
// for: there, too, a client that forwarded somebody else's request is refused. A proxy
// that adds no such field can't be told from its host, and one that adds only Via can't
// be told behind a trusted proxy, which may have added that: never name the address of
// one. Nor can the address of a trusted proxy ever be a client's.
//
// An IPv4 network may be written as IPv6. What is no valid prefix holds no address, and
// refusals say that it's there. Without prefixes it authorises nobody.
//
// [middleware.Options]: https://pkg.go.dev/github.com/weirhttp/weir/middleware#Options
func FromPrefixes(prefixes []netip.Prefix) func(*http.Request) (string, error) {
	var plain []netip.Prefix
	notAllowed := errors.New("the client's address isn't allowed")
	for i, p := range prefixes {
		if p, ok := forwarded.PlainPrefix(p); ok {
			plain = append(plain, p)
		} else {
			notAllowed = fmt.Errorf("%w; prefix %d of those that are, %v, is no network: write it like 10.0.0.0/8", notAllowed, i, p)
		}
	}
	return func(r *http.Request) (string, error) {
		peer, ok := forwarded.Peer(r.RemoteAddr)
		if !ok {
			return "", errors.New("the client has no address: the connection has none, or trusted proxies name none " +
				"but their own, by which nobody may purge; come from another address, or use a token")
		}
		if name := forwarded.Field(r.Header); name != "" {
			return "", fmt.Errorf("the request was forwarded (%s), so its client isn't known by the peer's address: "+
				"trust the proxy to name it, or use a token", name)
		}
		if !forwarded.Trusted(peer, plain) {
			return "", notAllowed
		}
		return peer.String(), nil
	}
}
