package lb

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// A body that breaks off never looks whole: not with a server, and not without.
func TestProxyCutBodyAborts(t *testing.T) {
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "10")
		}
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	overBoth(t, cut, func(t *testing.T, url string, c *http.Client) {
		for _, path := range []string{"/length", "/chunked"} {
			res, err := c.Get(url + path)
			require.NoError(t, err)
			b, err := io.ReadAll(res.Body)
			assert.Error(t, err)
			assert.Equal(t, "half", string(b))
			res.Body.Close()
		}
	})
	t.Run("without a server", func(t *testing.T) {
		origin := httptest.NewUnstartedServer(cut)
		origin.Config.ErrorLog = noLog
		origin.Start()
		t.Cleanup(origin.Close)
		p := newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"}))
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() {
			p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/length", nil))
		})
	})
}

// A client that leaves ends its request at the origin, in the upload and in the
// download, and nothing is left behind.
func TestProxyClientLeaves(t *testing.T) {
	testnet.CheckLeaks(t)
	ended := make(chan struct{}, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		if r.Method == "POST" {
			io.Copy(io.Discard, r.Body)
			return
		}
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil || r.Context().Err() != nil {
				return
			}
			http.NewResponseController(w).Flush()
		}
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		ctx, cancel := context.WithCancel(background)
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		res, err := c.Do(req)
		require.NoError(t, err)
		io.CopyN(io.Discard, res.Body, 4<<10)
		cancel()
		res.Body.Close()
		<-ended

		ctx, cancel = context.WithCancel(background)
		body := readerFunc(func(p []byte) (int, error) {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			time.AfterFunc(10*time.Millisecond, cancel)
			return len(p), nil
		})
		req, _ = http.NewRequestWithContext(ctx, "POST", url, body)
		_, err = c.Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		<-ended
	})
}
