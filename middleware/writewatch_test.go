package middleware

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// guardedOptions have an overload guard, so that requests hold tokens.
func guardedOptions() Options {
	return Options{Admission: AdmissionOptions{Overload: &admission.OverloadOptions{Knee: 50, Limit: 100, LagKnee: -1}}}
}

// sized answers with a body of n bytes that may be stored.
func sized(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goodFor60(w.Header())
		_, _ = w.Write(make([]byte, n))
	})
}

// Clients that pipeline requests for a small stored page, or for what is refused, and
// read nothing are cut off after a stall timeout, and hold no token of the overload
// guard's.
func TestUnreadSmallAnswersHoldNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		get  string
		size int
		want trace.Outcome
	}{
		"hit of 60 KiB": {"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", 60 << 10, trace.ClientGone},
		"hit of 5 KiB":  {"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", 5 << 10, trace.ClientGone},
		"a range":       {"GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-20000\r\n\r\n", 60 << 10, trace.ClientGone},
		"ranges":        {"GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9000,20000-29000\r\n\r\n", 60 << 10, trace.ClientGone},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				r := newRig(t, guardedOptions(), sized(c.size))
				res, err := r.client.Get(r.url + "/a")
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, res.Body)
				require.NoError(t, res.Body.Close())
				for range 5 {
					conn, err := dialRig(r)
					require.NoError(t, err)
					defer conn.Close()
					go func() { _, _ = io.WriteString(conn, strings.Repeat(c.get, 100)) }()
				}
				synctest.Wait()
				require.Equal(t, 5, r.mw.AdmissionStats().Overload.InFlight)
				time.Sleep(DefaultStallTimeout - time.Second)
				synctest.Wait()
				require.Equal(t, 5, r.mw.AdmissionStats().Overload.InFlight, "before the time is over")
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Zero(t, r.mw.AdmissionStats().Overload.InFlight)
				r.mu.Lock()
				defer r.mu.Unlock()
				require.Equal(t, c.want, r.records[len(r.records)-1].Outcome)
			})
		})
	}
}

// A slow client has all the time again for each answer, whatever the exchange and its
// timer did before.
func TestSlowPipelinedHitsAreServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Options{}, sized(20<<10))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, strings.Repeat("GET /a HTTP/1.1\r\nHost: a\r\n\r\n", 9)+
				"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		}()
		got := 0
		for buf := make([]byte, 20<<10); err == nil; {
			var n int
			time.Sleep(25 * time.Second)
			n, err = io.ReadFull(conn, buf)
			got += n
		}
		require.Greater(t, got, 10*20<<10)
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Len(t, r.records, 10)
		for _, rec := range r.records {
			require.Equal(t, trace.Complete, rec.Outcome)
		}
	})
}

// No limit is kept where StallTimeout is negative or the server has a WriteTimeout.
func TestUnreadHitWithoutStallLimit(t *testing.T) {
	for name, c := range map[string]struct {
		o     Options
		write time.Duration
	}{"negative": {o: Options{StallTimeout: -1}}, "WriteTimeout": {write: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second)
				r := prepareRig(t, c.o)
				l := testnet.NewPipeListener()
				srv := &http.Server{Handler: r.mw.Wrap(sized(20 << 10)), WriteTimeout: c.write, ErrorLog: silent()}
				served := make(chan struct{})
				go func() { defer close(served); _ = srv.Serve(l) }()
				defer func() { _ = srv.Close(); <-served }()
				conn, err := l.DialContext(t.Context(), "", "")
				require.NoError(t, err)
				defer conn.Close()
				const get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
				go func() { _, _ = io.WriteString(conn, get+get) }()
				_, err = io.ReadFull(conn, make([]byte, 20<<10)) // most of the first one
				require.NoError(t, err)
				time.Sleep(50 * time.Minute)
				n, err := io.ReadFull(conn, make([]byte, 20<<10))
				require.NoError(t, err)
				require.Equal(t, 20<<10, n)
			})
		})
	}
}

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := make([]byte, 9, 9+len(payload))
	b[0], b[1], b[2] = byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload))
	b[3], b[4] = kind, flags
	binary.BigEndian.PutUint32(b[5:], stream)
	return append(b, payload...)
}

// answerFrames does what keeps an HTTP/2 connection alive, and counts the streams that
// the server resets.
func answerFrames(c net.Conn, resets *atomic.Int64) {
	const settings, ping, rst, ack = 4, 6, 3, 1
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		p := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		switch kind, acked := head[3], head[4]&ack != 0; {
		case kind == settings && !acked:
			_, _ = c.Write(frame(settings, ack, 0, nil))
		case kind == ping && !acked:
			_, _ = c.Write(frame(ping, ack, 0, p))
		case kind == rst:
			resets.Add(1)
		}
	}
}

// A client of HTTP/2 that grants no window, asks for a small stored page as often as it
// may and answers pings holds no token either: each stream is reset in time.
func TestZeroWindowHoldsNoToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const streams = 40
		defer time.Sleep(time.Second)
		r := prepareRig(t, guardedOptions())
		h := r.mw.Wrap(sized(20 << 10))
		l := testnet.NewPipeListener()
		srv := NewServer(h, ServerOptions{})
		srv.Protocols = new(http.Protocols)
		srv.Protocols.SetUnencryptedHTTP2(true)
		srv.ErrorLog = silent()
		served := make(chan struct{})
		go func() { defer close(served); _ = srv.Serve(l) }()
		defer func() { _ = srv.Close(); <-served }()
		h.ServeHTTP(recorder(), request("GET", "http://a/a"))

		c, err := l.DialContext(t.Context(), "", "")
		require.NoError(t, err)
		defer c.Close()
		var resets atomic.Int64
		go answerFrames(c, &resets)
		ask := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		ask = append(ask, frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0})...) // SETTINGS_INITIAL_WINDOW_SIZE
		for i := range uint32(streams) {
			head := append([]byte{0x82, 0x86, 0x04, 2}, "/a\x01\x01a"...)
			ask = append(ask, frame(1, 0x5, 2*i+1, head)...)
		}
		_, err = c.Write(ask)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, streams, r.mw.AdmissionStats().Overload.InFlight)
		time.Sleep(DefaultStallTimeout + time.Second)
		synctest.Wait()
		require.Zero(t, r.mw.AdmissionStats().Overload.InFlight)
		require.GreaterOrEqual(t, resets.Load(), int64(streams))
	})
}

// stuckWriter is a client's writer whose writes wait for a write deadline.
type stuckWriter struct {
	http.ResponseWriter
	late chan struct{}
	once sync.Once
}

func (w *stuckWriter) SetWriteDeadline(time.Time) error {
	w.once.Do(func() { close(w.late) })
	return nil
}

func (w *stuckWriter) Write([]byte) (int, error) {
	<-w.late
	return 0, errors.New("late")
}

// A refusal's body has to be taken in time like any other.
func TestUnreadRefusalIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("x"))
		began := time.Now()
		w := &stuckWriter{ResponseWriter: recorder(), late: make(chan struct{})}
		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			s.h.ServeHTTP(w, request("GET", "/", "Cache-Control", "only-if-cached"))
		})
		require.InDelta(t, DefaultStallTimeout, time.Since(began), float64(time.Microsecond))
	})
}

// Writes end just when their time does: none is cut off for the lateness of one before,
// and each that isn't taken is.
func TestWriteWatchCutsOffNoOtherWrite(t *testing.T) {
	const window = 2 * time.Microsecond
	var w writeWatch
	var under, wrong, cuts atomic.Int64
	w.cutOff = func() bool {
		if under.Load() == 0 {
			wrong.Add(1)
		}
		cuts.Add(1)
		return true
	}
	said := int64(0)
	for i := range 20000 {
		under.Store(1)
		w.begin(window)
		if i%100 == 0 {
			for cuts.Load() == said { // a client that takes nothing
				time.Sleep(0)
			}
		}
		if w.end() {
			said++
		}
		under.Store(0)
		require.Equal(t, said, cuts.Load(), "each cut is told to the write that was cut off")
	}
	require.Zero(t, wrong.Load())
	require.GreaterOrEqual(t, said, int64(200))
}

// waitingBody is a client's body of which nothing comes until the read deadline.
type waitingBody struct {
	http.ResponseWriter
	late chan struct{}
}

func (b *waitingBody) SetReadDeadline(t time.Time) error {
	time.AfterFunc(time.Until(t), func() { close(b.late) })
	return nil
}

func (b *waitingBody) Read([]byte) (int, error) {
	<-b.late
	return 0, os.ErrDeadlineExceeded
}

func (b *waitingBody) Close() error { return nil }

// A handler hands the body to a transport, the origin answers early, and the handler
// returns while the transport still waits for the client. net/http waits for that read
// before it sends the answer, so it has to end in seconds.
func TestReadThatOutlivesTheHandlerEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		rig := prepareRig(t, Options{})
		h := rig.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			go func() {
				_, _ = r.Body.Read(make([]byte, 10))
				ended <- time.Now()
			}()
			time.Sleep(time.Second)
			w.WriteHeader(413)
		}))
		body := &waitingBody{ResponseWriter: recorder(), late: make(chan struct{})}
		r := request("POST", "/")
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{}))
		r.Body, r.ContentLength = body, 1000
		h.ServeHTTP(body, r)
		returned := time.Now()
		require.Equal(t, unreadPatience, (<-ended).Sub(returned))
	})
}
