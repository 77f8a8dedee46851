//go:build !linux

package middleware

import "net"

// limitUnsent does nothing: what can be said about it differs from system to system.
func limitUnsent(net.Conn) {}
