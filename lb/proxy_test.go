package lb

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each part reaches the client before the origin sends the next one, whatever
// says how long the body is; the head too, before any part.
func TestProxyStreams(t *testing.T) {
	for _, header := range [][]string{{"Content-Type", "text/event-stream"}, {"Content-Length", "15"}, {}} {
		next := make(chan struct{})
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.NewResponseController(w).Flush()
			for i := range 5 {
				<-next
				fmt.Fprintf(w, "%02d\n", i)
				http.NewResponseController(w).Flush()
			}
		})
		t.Run(strings.Join(header, ":"), func(t *testing.T) {
			overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
				res, err := c.Get(url)
				require.NoError(t, err)
				defer res.Body.Close()
				for i := range 5 {
					next <- struct{}{}
					var b [3]byte
					_, err := io.ReadFull(res.Body, b[:])
					require.NoError(t, err)
					assert.Equal(t, fmt.Sprintf("%02d\n", i), string(b[:]))
				}
				_, err = res.Body.Read(make([]byte, 1))
				assert.Equal(t, io.EOF, err)
			})
		})
	}
}

func TestProxyBigBodies(t *testing.T) {
	data := make([]byte, 5<<20+17)
	rand.Read(data)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, err := readSized(r.Body, len(data)); err == nil {
			w.Write(b)
		}
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		for _, body := range []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} {
			res, err := c.Post(url, "", body)
			require.NoError(t, err)
			b, err := readSized(res.Body, len(data))
			require.NoError(t, err)
			res.Body.Close()
			assert.True(t, bytes.Equal(data, b), "%d bytes", len(b))
		}
	})
}

// readSized is io.ReadAll without its growing, which is most of the time under the
// race detector.
func readSized(r io.Reader, n int) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, n+bytes.MinRead))
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

func TestProxyTrailers(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "body")
		w.Header().Set("X-Announced", "a")
		w.Header().Set(http.TrailerPrefix+"X-Late", "b")
		w.Header().Set(http.TrailerPrefix+"X-Echo", r.Trailer.Get("X-Sent"))
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		req, _ := http.NewRequest("POST", url, io.MultiReader(strings.NewReader("upload")))
		req.Trailer = http.Header{"X-Sent": {"c"}}
		res, err := c.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		require.NoError(t, err)
		assert.Equal(t, http.Header{"X-Announced": {"a"}, "X-Late": {"b"}, "X-Echo": {"c"}}, res.Trailer)
	})
}
