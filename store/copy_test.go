package store

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
)

// zeros is a File of zeros, all verified.
type zeros struct{ lr io.LimitedReader }

func (z *zeros) Section(_, n int64) (*io.LimitedReader, error) {
	z.lr = io.LimitedReader{R: bytes.NewReader(make([]byte, n)), N: n}
	return &z.lr, nil
}

func (*zeros) Close() error { return nil }

// The first piece is small, so that a client that takes nothing is found out soon;
// those that follow are larger. Each is announced, and can be the last.
func TestCopyInPieces(t *testing.T) {
	const all = 10<<20 + 1
	for _, c := range []struct {
		stop   int // at which piece; 0: never
		pieces []int64
		sent   int64
	}{
		{0, []int64{1 << 20, 4 << 20, 4 << 20, 1<<20 + 1}, all},
		{3, []int64{1 << 20, 4 << 20, 4 << 20}, 5 << 20},
	} {
		var pieces []int64
		stopped := errors.New("stopped")
		sent, err := CopySection(io.Discard, &zeros{}, 7, all, func(n int64) error {
			pieces = append(pieces, n)
			if len(pieces) == c.stop {
				return stopped
			}
			return nil
		})
		assert.Equal(t, c.pieces, pieces)
		assert.Equal(t, c.sent, sent)
		assert.Equal(t, c.stop > 0, err == stopped, err)
	}
}
