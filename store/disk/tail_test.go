package disk

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A small object is written in one piece, a large one in large aligned pieces:
// what the system keeps of the file in memory is in pieces as large.
func TestFilesAreWrittenInLargePieces(t *testing.T) {
	for _, c := range []struct{ size, piece, writes int }{
		{0, 1, 1}, {1000, 1000, 1}, {60 << 10, 1000, 1},
		{1 << 20, 32 << 10, 18}, // 16 of the body, one of its end and the rest, the head
		{1 << 20, 1 << 20, 4},   // the first, the middle, the end and the rest, the head
	} {
		writes := 0
		d := openWith(t, Options{}, func(op, _ string) error {
			if op == "write" {
				writes++
			}
			return nil
		})
		w, err := d.Create()
		require.NoError(t, err)
		body := bytesOf(4, c.size)
		for rest := body; len(rest) > 0; rest = rest[min(len(rest), c.piece):] {
			_, err := w.Write(rest[:min(len(rest), c.piece)])
			require.NoError(t, err)
		}
		require.Zero(t, w.Commit(object(key(1), nil)))
		require.NoError(t, w.Close())
		assert.Equal(t, c.writes, writes, c)
		mustHave(t, d, key(1), body)
	}
}
