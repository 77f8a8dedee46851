package lb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// The defaults of [TransportOptions].
const (
	DefaultDialTimeout     = 5 * time.Second
	DefaultTLSTimeout      = 5 * time.Second
	DefaultHeadTimeout     = 60 * time.Second
	DefaultBodyIdle        = 60 * time.Second
	DefaultIdleTimeout     = 60 * time.Second
	DefaultIdleConnections = 256
	DefaultConnLifetime    = 5 * time.Minute
	DefaultMaxHeadBytes    = 256 << 10
)

// Protocol is the version of HTTP that an origin is spoken to.
type Protocol uint8

const (
	// ProtocolAuto is HTTP/2 if the origin takes it in the TLS handshake, else
	// HTTP/1.1. Without TLS it is HTTP/1.1.
	ProtocolAuto Protocol = iota
	// ProtocolHTTP1 is HTTP/1.1 only.
	ProtocolHTTP1
	// ProtocolHTTP2 is HTTP/2 only: with TLS an origin that doesn't take it is
	// refused, without TLS it is taken for granted (h2c).
	ProtocolHTTP2
)

// String returns the protocol's name.
func (p Protocol) String() string {
	return name([]string{"auto", "HTTP/1.1", "HTTP/2"}, int(p))
}

// Resolver turns a name into addresses. A [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// TransportOptions says how origins are connected to. The zero value is HTTPS
// with the certificate checked, HTTP/2 where the origin has it.
type TransportOptions struct {
	// Scheme is "https" or "http"; "" means "https".
	Scheme string
	// Protocol is the version of HTTP; 0 is [ProtocolAuto].
	Protocol Protocol
	// Host replaces the visitor's Host, if not empty.
	Host string

	// ServerName is the name sent in the TLS handshake (SNI). "" means the
	// origin's name; an IP address isn't sent.
	ServerName string
	// VerifyName is the name or IP address that the certificate must be for. ""
	// means ServerName, or the origin's name.
	VerifyName string
	// RootCAs are who may sign certificates; nil means TLS.RootCAs or, without
	// it, those of the system.
	RootCAs *x509.CertPool
	// TLS is for what the fields above don't say, such as client certificates;
	// nil means the defaults of crypto/tls. It is copied.
	TLS *tls.Config

	// DialTimeout covers resolving the name and connecting to one of its
	// addresses. 0 means [DefaultDialTimeout].
	DialTimeout time.Duration
	// TLSTimeout is for the handshake. 0 means [DefaultTLSTimeout].
	TLSTimeout time.Duration
	// HeadTimeout is how long the origin may take from the end of the request to
	// its response's head. 0 means [DefaultHeadTimeout]; negative means for ever.
	HeadTimeout time.Duration
	// BodyIdle is how long the origin may go without sending a byte of the body
	// that is being waited for, or without taking any of the request's. The time
	// in which the visitor is what is waited for doesn't count. It is noticed up
	// to a quarter late. 0 means [DefaultBodyIdle]; negative means for ever.
	BodyIdle time.Duration

	// IdleTimeout is how long a connection is kept without a request. 0 means
	// [DefaultIdleTimeout]; negative means for ever. Keep it below the origin's.
	IdleTimeout time.Duration
	// IdleConnections is how many connections without a request are kept. 0
	// means [DefaultIdleConnections]; negative means none.
	IdleConnections int
	// ConnLifetime is how old a connection to an origin given by name may be to
	// get another request, a tenth more or less. The name is resolved for each new
	// connection; those to an address that its answers have lacked for 30 s get no
	// request either. Requests under way are not disturbed. 0 means
	// [DefaultConnLifetime]; negative means for ever.
	ConnLifetime time.Duration

	// MaxHeadBytes is how long a response's head may be. 0 means
	// [DefaultMaxHeadBytes].
	MaxHeadBytes int64

	// Resolver resolves names; nil means [net.DefaultResolver].
	Resolver Resolver
	// DialContext connects to an IP address and port; nil means a [net.Dialer].
	// It is called from goroutines of the transport.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// resolve checks the options and fills in the defaults. The fields of its errors
// begin with prefix, such as "Pools[0].Transport.".
func (o TransportOptions) resolve(prefix string) (TransportOptions, error) {
	var errs []error
	bad := func(field string, value any, reason string) {
		errs = append(errs, &ConfigError{prefix + field, value, reason})
	}
	switch o.Scheme {
	case "":
		o.Scheme = "https"
	case "http", "https":
	default:
		bad("Scheme", o.Scheme, `write "https" or "http"`)
	}
	if o.Protocol > ProtocolHTTP2 {
		bad("Protocol", uint8(o.Protocol), "use one of the constants")
	}
	if o.Scheme == "http" && (o.ServerName != "" || o.VerifyName != "" || o.RootCAs != nil || o.TLS != nil) {
		bad("Scheme", o.Scheme, `there is no TLS without "https": leave ServerName, VerifyName, RootCAs and TLS empty`)
	}
	if o.Host != "" && !validHost(o.Host) {
		bad("Host", o.Host, "write a host name, with a port if need be")
	}
	if o.TLS != nil && o.TLS.InsecureSkipVerify && o.VerifyName != "" {
		bad("VerifyName", o.VerifyName, "TLS.InsecureSkipVerify checks no name: leave one of them out")
	}
	positive := func(field string, d *time.Duration, def time.Duration) {
		if *d < 0 {
			bad(field, *d, fmt.Sprintf("can't be negative; leave it 0 for %v", def))
		}
		if *d == 0 {
			*d = def
		}
	}
	positive("DialTimeout", &o.DialTimeout, DefaultDialTimeout)
	positive("TLSTimeout", &o.TLSTimeout, DefaultTLSTimeout)
	o.HeadTimeout = orDefault(o.HeadTimeout, DefaultHeadTimeout)
	o.BodyIdle = orDefault(o.BodyIdle, DefaultBodyIdle)
	o.IdleTimeout = orDefault(o.IdleTimeout, DefaultIdleTimeout)
	o.ConnLifetime = orDefault(o.ConnLifetime, DefaultConnLifetime)
	o.IdleConnections = orDefault(o.IdleConnections, DefaultIdleConnections)
	if o.MaxHeadBytes < 0 {
		bad("MaxHeadBytes", o.MaxHeadBytes, "can't be negative; leave it 0 for 262144")
	}
	o.MaxHeadBytes = orDefault(o.MaxHeadBytes, DefaultMaxHeadBytes)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{}).DialContext
	}
	return o, errors.Join(errs...)
}

// orDefault returns def for 0, and v else.
func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// name returns the i-th of names, or its number.
func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown (%d)", i)
}
