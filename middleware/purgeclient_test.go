package middleware

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission/guard"
	"github.com/weirhttp/weir/purge"
)

// Behind a proxy whose address may purge, its visitors may not: it goes by the client
// that trusted proxies name, and where none does, by nobody.
func TestPurgeByAddressGoesByTheClient(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	allowed := purge.FromPrefixes([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")})
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		field   guard.Forwarding
		peer    string
		header  []string
		status  int
	}{
		"nobody forwarded it":                     {nil, 0, "10.9.0.1", nil, 200},
		"nobody forwarded it, but some do":        {proxies, 0, "10.9.0.1", nil, 200},
		"a visitor, through nobody we trust":      {nil, 0, "10.0.0.1", []string{"X-Forwarded-For", "203.0.113.6"}, 403},
		"it says so in another way":               {nil, 0, "10.0.0.1", []string{"X-Real-Ip", "203.0.113.6"}, 403},
		"a proxy that isn't among those we trust": {proxies, 0, "10.9.0.1", []string{"X-Forwarded-For", "10.9.0.2"}, 403},
		"a visitor":                            {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "203.0.113.6", "Via", "1.1 a"}, 403},
		"a visitor who claims another address": {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1, 203.0.113.6"}, 403},
		"somebody who may": {proxies, 0, "10.0.0.1", []string{
			"X-Forwarded-For", " ,10.9.0.1, 10.0.0.2", "Via", "1.1 a, 1.1 b", "X-Real-Ip", "10.9.0.1", "True-Client-Ip", "10.0.0.2",
			"X-Forwarded-Proto", "https, https", "X-Forwarded-Uri", "/a,b,c", "X-Forwarded-Host", "192.0.2.7",
		}, 200},
		"a visitor of somebody who may":               {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "203.0.113.6, 10.9.0.1, 10.0.0.2"}, 403},
		"in a line of its own":                        {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "203.0.113.6", "X-Forwarded-For", "10.9.0.1"}, 403},
		"a visitor whom that hides":                   {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "unknown, 10.9.0.1"}, 403},
		"that says so in the other field":             {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "Forwarded", "for=203.0.113.6"}, 403},
		"or further left there":                       {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "Forwarded", "for=203.0.113.6, for=10.9.0.1"}, 403},
		"both fields say the same":                    {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "Forwarded", "for=10.9.0.1;proto=https"}, 200},
		"the other way round":                         {proxies, guard.Forwarded, "10.0.0.1", []string{"Forwarded", "for=10.9.0.1", "X-Forwarded-For", "203.0.113.6, 10.9.0.1"}, 403},
		"a visitor of somebody who may, by Forwarded": {proxies, guard.Forwarded, "10.0.0.1", []string{"Forwarded", `for="_a", for=10.9.0.1`}, 403},
		"a gateway's Via":                             {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "Via", "1.1 gateway, 1.1 a"}, 403},
		"a gateway's Via, in lines":                   {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "Via", "1.1 gateway", "Via", "1.1 a"}, 403},
		"a gateway's X-Real-IP":                       {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "X-Real-Ip", "203.0.113.6"}, 403},
		"a gateway's X-Real-IP, hidden":               {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "X-Real-Ip", "somebody"}, 403},
		"a gateway's host":                            {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "X-Forwarded-Host", "a, b"}, 403},
		"something nobody knows":                      {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "X-Forwarded-Whatever", "x"}, 403},
		"what Connection hides":                       {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1", "Connection", "X-Real-IP"}, 403},
		"somebody who may, by IPv6":                   {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "2001:db8::1"}, 200},
		"somebody who may, by the other field":        {proxies, guard.Forwarded, "10.0.0.1", []string{"Forwarded", "for=10.9.0.1"}, 200},
		"not in the field that counts":                {proxies, guard.Forwarded, "10.0.0.1", []string{"X-Forwarded-For", "10.9.0.1"}, 403},
		"the proxy doesn't say":                       {proxies, 0, "10.0.0.1", nil, 403},
		"the proxy doesn't know":                      {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "unknown"}, 403},
		"the proxy itself":                            {proxies, 0, "10.0.0.1", []string{"X-Forwarded-For", "10.0.0.1"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := Options{Logger: quietLog(), TrustedProxies: c.trusted}
				o.Admission.ClientField = c.field
				o.Purge.Authorise = allowed
				s := newSite(t, o, public("old"))
				s.get("/")
				before := s.mw.purges.list.Now()
				r := s.do("PURGE", "/", append([]string{"Peer", c.peer}, c.header...)...)
				require.Equal(t, c.status, r.status)
				require.Equal(t, c.status == 200, s.mw.purges.list.Now() > before)

				api, err := s.mw.PurgeAPI(allowed)
				require.NoError(t, err)
				call := httptest.NewRequest("POST", "/", strings.NewReader(`{"purge":[{"kind":"everything"}]}`))
				call.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(c.peer), 1).String()
				for i := 0; i < len(c.header); i += 2 {
					call.Header.Add(c.header[i], c.header[i+1])
				}
				call.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				api.ServeHTTP(w, call)
				require.Equal(t, c.status, w.Code, "the JSON interface")
			})
		})
	}
}

// An authoriser of one's own that goes by the address doesn't see a proxy's either, and
// the request that is answered is as it came.
func TestAuthoriserSeesTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen []string
		o := Options{Logger: quietLog(), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		o.Purge.Authorise = func(r *http.Request) (string, error) {
			seen = append(seen, r.RemoteAddr+" "+r.Host+" "+strings.Join(r.Header["X-Forwarded-For"], ";")+r.Header.Get("X-Kept"))
			return "", purge.ErrNoCredentials
		}
		s := newSite(t, o)
		s.do("PURGE", "/", "Peer", "10.0.0.1", "X-Forwarded-For", "203.0.113.6", "X-Forwarded-Host", "shop.test", "X-Kept", "kept")
		s.do("PURGE", "/", "Peer", "10.0.0.1", "X-Forwarded-For", "a", "X-Forwarded-For", "b, 203.0.113.6,10.0.0.2")
		s.do("PURGE", "/", "Peer", "10.0.0.1", "X-Kept", "kept")
		s.do("PURGE", "/", "Peer", "192.0.2.1", "X-Forwarded-For", "203.0.113.6")
		require.Equal(t, []string{
			"203.0.113.6:0 shop.test kept", "203.0.113.6:0 example.com a;b", " example.com kept", "192.0.2.1:1234 example.com 203.0.113.6",
		}, seen)
	})
}

// Where a client's address can't be told from a trusted proxy's, the refusal says what
// to do.
func TestRefusedPurgeSaysThatTheProxyIsTrusted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		o.Purge.Authorise = purge.FromPrefixes(o.TrustedProxies)
		s := newSite(t, o)
		for _, header := range [][]string{nil, {"X-Forwarded-For", "10.0.0.1"}, {"X-Forwarded-For", "unknown"}} {
			log.Reset()
			require.Equal(t, 403, s.do("PURGE", "/", append([]string{"Peer", "10.0.0.1"}, header...)...).status)
			require.Contains(t, log.String(), "trusted proxies name none but their own")
		}
	})
}
