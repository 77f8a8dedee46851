package middleware

import (
	"context"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// h2Rig serves h over HTTP/2 in the clear on a network in memory.
func h2Rig(t *testing.T, srv *http.Server) *http.Client {
	t.Helper()
	l := testnet.NewPipeListener()
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.ErrorLog = silent()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	tr := &http.Transport{DialContext: l.DialContext, Protocols: srv.Protocols}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		<-served
	})
	return &http.Client{Transport: tr}
}

// Over HTTP/2 a stalled body fails alone: another request on the connection, and a
// handler that takes its time between two reads, notice nothing.
func TestSlowBodyOverHTTP2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		slow, good := make(chan upload, 1), make(chan upload, 1)
		mux := http.NewServeMux()
		mux.Handle("/slow", takeUpload(0, slow))
		mux.Handle("/good", takeUpload(5*time.Minute, good))
		client := h2Rig(t, NewServer(mw.Wrap(mux), ServerOptions{}))
		send := func(path string, body io.Reader) {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://a"+path, body)
			require.NoError(t, err)
			if res, err := client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
		stalled, writer := io.Pipe()
		goodBody, goodWriter := io.Pipe()
		go send("/slow", stalled)
		go send("/good", goodBody)
		go func() { _, _ = writer.Write([]byte("abc")) }()
		go func() {
			for range 5 {
				_, _ = goodWriter.Write([]byte("abc"))
				time.Sleep(30 * time.Second)
			}
			_ = goodWriter.Close()
		}()
		u := <-slow
		require.ErrorIs(t, u.err, os.ErrDeadlineExceeded)
		require.Equal(t, int64(3), u.got)
		require.Equal(t, 60*time.Second, u.took)
		u = <-good
		require.Equal(t, io.EOF, u.err)
		require.Equal(t, int64(15), u.got)
		_ = writer.Close()
	})
}

// Over HTTP/2 a client that takes nothing of an answer has its stream reset.
func TestSlowReaderOverHTTP2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		ended := make(chan error, 1)
		client := h2Rig(t, NewServer(mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				_, err := w.Write(make([]byte, 64<<20))
				ended <- err
			}
		})), ServerOptions{}))
		began := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://a/", nil)
		require.NoError(t, err)
		res, err := client.Do(req)
		require.NoError(t, err)
		require.Error(t, <-ended)
		require.LessOrEqual(t, time.Since(began), time.Minute)
		_ = res.Body.Close()
		res, err = client.Get("http://a/other")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	})
}
