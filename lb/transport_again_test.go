package lb

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A request that goes on with another connection has nothing in common with its try
// on the first one, which may still be looked after. The race detector tells.
func TestAnotherConnectionIsAnotherExchange(t *testing.T) {
	addr := listen(t, rawHTTP2(func(c net.Conn, _ int, head frame) {
		answer200(c, head.stream)
		writeFrame(c, frame{kind: frameGoAway, data: []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}})
		c.Close()
	}))
	tr := transportTo(t, addr, TransportOptions{
		Scheme: "http", Protocol: ProtocolHTTP2, HeadTimeout: 4 * time.Millisecond, BodyIdle: 4 * time.Millisecond,
	})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 60 {
				send(tr, newRequest(t, "GET", ""), false)
			}
		})
	}
	wg.Wait()
}

// A body is left to another connection only if nobody has begun to read it, and who
// had it before gets none of it from then on.
func TestBodyIsWithdrawnBeforeItIsRead(t *testing.T) {
	var s, later sendBody
	body := &closeCounter{Reader: strings.NewReader("data")}
	s.set(&exchange{}, body)
	assert.True(t, s.withdraw())
	n, err := s.Read(make([]byte, 4))
	assert.Equal(t, []any{0, errUnasked}, []any{n, err})
	assert.NoError(t, s.Close())
	assert.Zero(t, body.closed, "the other connection reads it")

	x := &exchange{orig: newRequest(t, "POST", "")}
	later.set(x, body)
	got, err := io.ReadAll(&later)
	assert.Equal(t, []any{"data", nil}, []any{string(got), err})
	assert.False(t, later.withdraw())
	later.finish()
	assert.Equal(t, 1, body.closed)
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }
