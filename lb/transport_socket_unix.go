//go:build unix

package lb

import (
	"io"
	"net"
	"os"
	"syscall"
)

// rawConn returns what a socket's emptiness can be seen by. A type that has more
// than a socket in it, such as one that decrypts, has its own Read.
func rawConn(c net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	switch c := c.(type) {
	case *net.TCPConn:
		raw, _ = c.SyscallConn()
	case *net.UnixConn:
		raw, _ = c.SyscallConn()
	}
	return raw
}

// maxRead is how much some systems read at once.
const maxRead = 1 << 30

// readNow reads from a socket. again says that there is nothing now.
func readNow(fd uintptr, p []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), p[:min(len(p), maxRead)])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0, true, nil
		case err != nil:
			return 0, false, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
		case n == 0:
			return 0, false, io.EOF
		}
		return n, false, nil
	}
}
