package lb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// tlsConfig returns the configuration of handshakes.
func (t *transport) tlsConfig() *tls.Config {
	cfg := &tls.Config{}
	if t.o.TLS != nil {
		cfg = t.o.TLS.Clone()
	}
	if t.o.RootCAs != nil {
		cfg.RootCAs = t.o.RootCAs
	}
	cfg.ServerName = orDefault(orDefault(t.o.ServerName, cfg.ServerName), t.target.host())
	switch t.o.Protocol {
	case ProtocolHTTP1:
		cfg.NextProtos = []string{"http/1.1"}
	case ProtocolHTTP2:
		cfg.NextProtos = []string{"h2"}
	default:
		cfg.NextProtos = []string{"h2", "http/1.1"}
	}
	if cfg.ClientSessionCache == nil {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	}
	if verify := t.o.VerifyName; verify != "" && verify != cfg.ServerName {
		verifyAs(cfg, verify)
	}
	return cfg
}

// verifyAs has the certificate checked for another name than the one sent.
// crypto/tls can't, so its own check is off and the same is done here. The caller's
// own checks get what they would get from it.
func verifyAs(cfg *tls.Config, name string) {
	before, beforePeer, roots := cfg.VerifyConnection, cfg.VerifyPeerCertificate, cfg.RootCAs
	cfg.InsecureSkipVerify = true
	cfg.VerifyPeerCertificate = nil // crypto/tls has no chains for it
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		opts := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
		if cfg.Time != nil {
			opts.CurrentTime = cfg.Time()
		}
		if len(cs.PeerCertificates) == 0 {
			return errors.New("the origin has no certificate")
		}
		for _, cert := range cs.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		chains, err := cs.PeerCertificates[0].Verify(opts)
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
		}
		cs.VerifiedChains = chains
		if beforePeer != nil && !cs.DidResume {
			var raw [][]byte
			for _, cert := range cs.PeerCertificates {
				raw = append(raw, cert.Raw)
			}
			if err := beforePeer(raw, chains); err != nil {
				return err
			}
		}
		if before != nil {
			return before(cs)
		}
		return nil
	}
}

// handshake does TLS on raw.
func (t *transport) handshake(ctx context.Context, raw net.Conn, http1 bool) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.TLSTimeout)
	defer cancel()
	cfg := t.tls
	if http1 {
		cfg = cfg.Clone()
		cfg.NextProtos = []string{"http/1.1"}
	}
	tc := tls.Client(raw, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return tc, nil
}
