package middleware

import (
	"net"
	"syscall"
)

// tcpNotSentLowAt is TCP_NOTSENT_LOWAT of linux/tcp.h.
const tcpNotSentLowAt = 25

// limitUnsent has the kernel take no more than unsentLimit that it can't send yet, so
// that a writer sees it soon when its client takes something. Otherwise it's woken only
// when a third of the send buffer, of up to 4 MiB, is free.
func limitUnsent(conn net.Conn) {
	sc, ok := innermost(conn).(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // not a TCP connection, if it fails
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowAt, unsentLimit)
		})
	}
}
