package lb

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// Hijack takes the client's connection over. What the client sent right behind its
// request is read from the connection, where ReverseProxy looks for it.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil || !w.early || rw.Reader.Buffered() == 0 {
		return c, rw, err
	}
	return &earlyConn{c, rw.Reader}, rw, nil
}

// earlyConn is a connection of which something has been read already. Reads may
// not be concurrent.
type earlyConn struct {
	net.Conn
	early *bufio.Reader
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if n := c.early.Buffered(); n > 0 {
		return c.early.Read(p[:min(n, len(p))]) // never from the connection
	}
	return c.Conn.Read(p)
}

// CloseWrite ends the direction to the client.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported // which ends the other direction too
}
