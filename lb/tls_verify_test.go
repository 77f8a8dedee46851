package lb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// issued is a certificate and its key.
type issued struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate for a name, or an authority's if there is none.
func issue(t *testing.T, by *issued, name string) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "of " + name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: name == "", KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if name != "" {
		c.DNSNames = []string{name}
	}
	me := &issued{c, key}
	if by == nil {
		by = me
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
	require.NoError(t, err)
	me.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return me
}

// A name to verify is verified as crypto/tls would: with the certificates that the
// origin sends between its own and an authority's, and at the time that the application
// says it is.
func TestNameToVerifyIsVerifiedWithChainAndTime(t *testing.T) {
	root := issue(t, nil, "")
	between := issue(t, root, "")
	leaf := issue(t, between, "shop.test")
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	late := func() time.Time { return time.Now().Add(2 * time.Hour) }
	for _, tc := range []struct {
		name  string
		sends [][]byte
		o     TransportOptions
		want  Failure
	}{
		{"whole chain", [][]byte{leaf.cert.Raw, between.cert.Raw}, TransportOptions{}, FailureNone},
		{"without what is between", [][]byte{leaf.cert.Raw}, TransportOptions{}, FailureTLS},
		{"after its end", [][]byte{leaf.cert.Raw, between.cert.Raw}, TransportOptions{TLS: &tls.Config{Time: late}}, FailureTLS},
	} {
		for _, server := range []string{"shop.test", "other.test"} { // by crypto/tls, and by us
			srv := httptest.NewUnstartedServer(http.NotFoundHandler())
			srv.Config.ErrorLog = noLog
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: tc.sends, PrivateKey: leaf.key}}}
			srv.StartTLS()
			o := tc.o
			o.RootCAs, o.ServerName, o.VerifyName = roots, server, "shop.test"
			r := send(transportTo(t, srv.Listener.Addr().String(), o), newRequest(t, "GET", ""), false)
			assert.Equal(t, tc.want, FailureOf(r.err), "%s, %s: %v", tc.name, server, r.err)
			srv.Close()
		}
	}
}
