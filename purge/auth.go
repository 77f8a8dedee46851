package purge

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weirhttp/weir/internal/forwarded"
)

// ErrNoCredentials is what an authoriser returns, wrapped or not, when the request
// has no valid credentials. It is answered with 401, any other error with 403.
var ErrNoCredentials = errors.New("no valid credentials")

// BearerToken authorises requests with "Authorization: Bearer " and the token. It
// compares in constant time. An empty token authorises nobody.
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

// FromPrefixes authorises requests whose connection comes from one of the
// networks, as [http.Request].RemoteAddr has it: behind a proxy that is the
// proxy's address. No header is looked at. Without prefixes it authorises nobody.
func FromPrefixes(prefixes []netip.Prefix) func(*http.Request) (string, error) {
	prefixes = append([]netip.Prefix(nil), prefixes...)
	return func(r *http.Request) (string, error) {
		peer, ok := forwarded.Peer(r.RemoteAddr)
		switch {
		case !ok:
			return "", errors.New("the peer has no address")
		case !forwarded.Trusted(peer, prefixes):
			return "", errors.New("the peer's address isn't allowed")
		}
		return peer.String(), nil
	}
}
