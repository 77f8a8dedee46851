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
// its peer's own and is refused, unless it was seen to before who the client is, as
// [middleware.Options].TrustedProxies does. A proxy that adds no such field can't be
// told from its host: never name the address of one. Without prefixes it authorises
// nobody.
//
// [middleware.Options]: https://pkg.go.dev/github.com/weirhttp/weir/middleware#Options
func FromPrefixes(prefixes []netip.Prefix) func(*http.Request) (string, error) {
	prefixes = append([]netip.Prefix(nil), prefixes...)
	return func(r *http.Request) (string, error) {
		if name := forwarded.Field(r.Header); name != "" {
			return "", fmt.Errorf("the request was forwarded (%s), so its client isn't known by the peer's address: "+
				"trust the proxy to name it, or use a token", name)
		}
		peer, ok := forwarded.Peer(r.RemoteAddr)
		switch {
		case !ok:
			return "", errors.New("the client has no address")
		case !forwarded.Trusted(peer, prefixes):
			return "", errors.New("the client's address isn't allowed")
		}
		return peer.String(), nil
	}
}
