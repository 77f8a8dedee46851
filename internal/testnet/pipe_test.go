package testnet

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour) // on the bubble's clock
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			assert.NoError(t, err)
			io.WriteString(w, r.Host+" "+host)
		}))
		start := time.Now()
		r := s.Get(t, "/", "Host", "shop.example")
		assert.Equal(t, "shop.example 192.0.2.1", r.Body)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestClientShowsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Empty(t, r.Header.Get("Accept-Encoding"))
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}))
		r := s.Get(t, "/")
		assert.Equal(t, http.StatusFound, r.Status)
		assert.Equal(t, "/elsewhere", r.Header.Get("Location"))
	})
}

func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewPipeListener()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Dial(ctx) // nobody accepts
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		accepted := make(chan error)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		assert.ErrorIs(t, <-accepted, net.ErrClosed)
		_, err = l.Dial(t.Context())
		assert.ErrorIs(t, err, net.ErrClosed)
		_, err = l.Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}

// A closed server must cut connections in use, or the bubble never ends.
func TestServerCloseCutsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}))
		failed := make(chan error)
		go func() {
			_, err := Do(s.Client, "GET", "http://example.com/")
			failed <- err
		}()
		synctest.Wait()
		s.Close()
		assert.Error(t, <-failed)
	})
}

func TestDo(t *testing.T) {
	_, err := Do(http.DefaultClient, "GET", "http://example.com/", "odd")
	assert.ErrorContains(t, err, "pairs")
	_, err = Do(http.DefaultClient, "bad method", "http://example.com/")
	assert.Error(t, err)
}
