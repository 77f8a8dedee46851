//go:build !unix

package lb

import (
	"net"
	"syscall"
)

func rawConn(net.Conn) syscall.RawConn { return nil }

func readNow(uintptr, []byte) (n int, again bool, err error) { panic("there is no raw connection") }
