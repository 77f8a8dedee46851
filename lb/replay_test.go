package lb

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closing counts how often a body is closed.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

// Random attempts that give up anywhere: the next one reads the same bytes from
// the start, or is told beforehand that it can't.
func TestReplayGivesTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		data := make([]byte, r.IntN(300))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		limit := r.IntN(300)
		src := &closing{Reader: bytes.NewReader(data)}
		length := int64(len(data))
		if r.IntN(2) == 0 {
			length = -1
		}
		rep := newReplay(src, length, limit)
		most := 0 // bytes that were read of the source
		for {
			body := rep.attempt()
			var got []byte
			giveUp := r.IntN(2*len(data) + 2)
			var err error
			for err == nil && len(got) < giveUp {
				var n int
				buf := make([]byte, 1+r.IntN(50))
				n, err = body.Read(buf)
				got = append(got, buf[:n]...)
			}
			most = max(most, len(got))
			require.True(t, bytes.Equal(data[:len(got)], got))
			require.LessOrEqual(t, cap(rep.kept), 2*limit+64)
			if err == io.EOF {
				require.Len(t, got, len(data))
				rep.finish(true)
				require.NoError(t, body.Close())
				break
			}
			require.NoError(t, err)
			body.Close()
			assert.Zero(t, src.closed, "the source stays open between attempts")
			possible := rep.possible()
			if most > limit {
				require.False(t, possible)
			}
			if most == 0 || len(data) <= limit {
				require.True(t, possible)
			}
			if !possible {
				rep.finish(false)
				break
			}
		}
		require.Equal(t, 1, src.closed)
	}
}

// An attempt that was given up while it reads doesn't take bytes from the next.
func TestReplayWaitsForAnAbandonedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		rep := newReplay(pr, -1, 100)
		old := rep.attempt()
		var wg sync.WaitGroup
		wg.Go(func() {
			buf := make([]byte, 50)
			n, err := old.Read(buf)
			assert.NoError(t, err)
			assert.Equal(t, 5, n)
			_, err = old.Read(buf)
			assert.ErrorIs(t, err, errAbandoned)
		})
		synctest.Wait()
		require.True(t, rep.possible())
		next := rep.attempt()
		rep.finish(true)
		var got []byte
		wg.Go(func() { got, _ = io.ReadAll(next) })
		pw.Write([]byte("first"))
		pw.Write([]byte(" second"))
		pw.Close()
		wg.Wait()
		assert.Equal(t, "first second", string(got))
	})
}

func TestReplayErrors(t *testing.T) {
	src := &closing{Reader: io.MultiReader(strings.NewReader("abc"), errReader{})}
	rep := newReplay(src, 10, 100)
	got, err := io.ReadAll(rep.attempt())
	assert.Equal(t, "abc", string(got))
	assert.EqualError(t, err, "gone")
	assert.False(t, rep.possible(), "the client's side broke")
	rep.finish(false)
	assert.Equal(t, 1, src.closed)
	rep.finish(false)
	assert.Equal(t, 1, src.closed)
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("gone") }
