package lb

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
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
		rep := newReplay(background, src, length, limit)
		most := 0 // bytes that were read of the source
		for {
			body := rep.attempt(false)
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
		rep := newReplay(background, pr, -1, 100)
		old := rep.attempt(false)
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
		next := rep.attempt(false)
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

// Each attempt has trailers of its own, filled at its body's end: a given up attempt
// may be reading while the next one's head is written.
func TestReplayTrailers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		req := mustRequest("PUT", "http://shop.test/")
		req.Trailer = http.Header{"X-Sum": nil}
		req.ContentLength = -1
		req.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			n, err := pr.Read(p)
			if err == io.EOF {
				req.Trailer["X-Sum"] = []string{"1"} // as net/http's server does
			}
			return n, err
		}))
		all := newBodies(req, 100)
		next := func() (io.Reader, http.Header) {
			body, trailer, err := all.next(false)
			require.NoError(t, err)
			return body, trailer
		}
		old, oldTrailer := next()
		go io.Copy(io.Discard, old)
		pw.Write([]byte("data"))
		synctest.Wait()
		for range 2 {
			body, trailer := next()
			assert.Equal(t, http.Header{"X-Sum": nil}, trailer, "declared")
			pw.Close()
			for range trailer { // as a head does, beside the reading
			}
			got, err := io.ReadAll(body)
			require.NoError(t, err)
			assert.Equal(t, "data", string(got))
			assert.Equal(t, http.Header{"X-Sum": {"1"}}, trailer)
		}
		synctest.Wait()
		assert.Equal(t, http.Header{"X-Sum": {"1"}}, oldTrailer)
		all.finish(false)
	})
}

// A repeated PUT brings its trailers to the second origin, and nothing is written to
// what is being read.
func TestTrailersOfARepeatedUpload(t *testing.T) {
	sick := listen(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		}
	})
	well := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, r.Trailer.Get("X-Sum"))
	})
	p := plainPool("p", sick, well.address())
	p.Retry = Retry{Percent: 100, Floor: 1000}
	b := newBalancer(t, Options{Pools: []Pool{p}})
	front := proxied(t, newProxy(t, b))
	for range 20 {
		pr, pw := io.Pipe()
		req, err := http.NewRequest("PUT", front.URL, pr)
		require.NoError(t, err)
		req.Trailer = http.Header{"X-Sum": nil}
		go func() {
			pw.Write([]byte("data"))
			for well.now.Load() == 0 { // the repetition has begun
				runtime.Gosched()
			}
			req.Trailer["X-Sum"] = []string{"1"}
			pw.Close()
		}()
		res, err := front.Client().Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.NoError(t, err)
		require.Equal(t, "200 OK 1", res.Status+" "+string(text))
	}
}

func TestReplayErrors(t *testing.T) {
	src := &closing{Reader: io.MultiReader(strings.NewReader("abc"), errReader{})}
	rep := newReplay(background, src, 10, 100)
	got, err := io.ReadAll(rep.attempt(false))
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
