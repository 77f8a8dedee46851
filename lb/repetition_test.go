package lb

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// An attempt that has closed its body may still be reading it: it takes nothing of what
// the next one is to get.
func TestReplayGivesNothingAfterClose(t *testing.T) {
	src := bytes.NewReader([]byte("body"))
	rep := newReplay(background, &closing{Reader: src}, -1, 100)
	old := rep.attempt(false)
	assert.NoError(t, old.Close())
	n, err := old.Read(make([]byte, 10))
	assert.Equal(t, []any{0, errAbandoned, 4}, []any{n, err, src.Len()})
	b, err := io.ReadAll(rep.attempt(false))
	assert.Equal(t, []any{"body", nil}, []any{string(b), err})
}

// Of a body that is known to be too long nothing is kept: once some of it was read it
// can't be sent again.
func TestReplayKeepsNothingOfWhatIsTooLong(t *testing.T) {
	for length, possible := range map[int64]bool{101: false, 100: true, -1: true} {
		rep := newReplay(background, &closing{Reader: bytes.NewReader(make([]byte, 101))}, length, 100)
		n, err := rep.attempt(false).Read(make([]byte, 10))
		assert.Equal(t, []any{10, nil, possible, possible}, []any{n, err, rep.possible(), len(rep.kept) == 10}, length)
	}
}

// While the source is read for what can't be kept, the body counts as lost: nobody knows
// yet whether anything comes.
func TestReplayIsntPossibleWhileSomethingMayBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		rep := newReplay(background, pr, -1, 0)
		body := rep.attempt(false)
		assert.True(t, rep.possible())
		go body.Read(make([]byte, 10))
		synctest.Wait()
		assert.False(t, rep.possible())
		pw.Close()
		synctest.Wait()
		assert.True(t, rep.possible(), "nothing came")
	})
}

// A body that the request can give again isn't kept, and however long it is it's sent
// again.
func TestBodyThatCanBeHadAgainIsSentAgain(t *testing.T) {
	var got []string
	s := func(status int) string {
		return newSite(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got = append(got, string(b))
			w.WriteHeader(status)
		}).address()
	}
	p := plainPool("p", s(503), s(503), s(200))
	p.Retry.BodyBytes = -1
	b := newBalancer(t, Options{Pools: []Pool{p}})
	body := strings.Repeat("x", 3*DefaultRetryBody)
	req, err := http.NewRequest("PUT", "http://shop.test/", strings.NewReader(body))
	require.NoError(t, err)
	res, err := b.RoundTrip(req)
	require.NoError(t, err)
	res.Body.Close()
	assert.Equal(t, 200, res.StatusCode)
	assert.Equal(t, []string{body, body, body}, got)
}

// Repetitions that are no load have a budget of their own: they neither use up that of
// the others, nor are they without a bound.
func TestBudgetsAreApart(t *testing.T) {
	b, now := &budget{}, time.Unix(1000, 0)
	free, load := 0, 0
	b.request(now)
	for b.takeFree(now) {
		free++
	}
	for b.take(now, 100, 5) {
		load++
	}
	assert.Equal(t, []int{1 + freeFloor, 1 + 5}, []int{free, load})
}

// dialling connects to an origin in a bubble that calls f for each connection.
func dialling(t *testing.T, f func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	l := testnet.NewPipeListener()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); f(c) }()
		}
	}()
	return l.DialContext
}

// bubbleTest is a test whose clock stands while anything moves: whether a connection was
// lost long after the request depends on it.
func bubbleTest(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// A connection that is going away in good order, or was closed while it was kept, costs
// no budget for load, but the other one; a stream that is refused does.
func TestRepetitionsOnAnotherConnection(t *testing.T) {
	goaway := func(c net.Conn, conn int, h frame) {
		if conn == 1 {
			writeFrame(c, frame{kind: frameGoAway, data: make([]byte, 8)})
			return
		}
		answer200(c, h.stream)
	}
	refused := func(c net.Conn, conn int, h frame) {
		writeFrame(c, frame{kind: frameReset, stream: h.stream, data: []byte{0, 0, 0, http2RefusedStream}})
	}
	kept := func(c net.Conn, conn int, h frame) { // serves one request
		if h.stream > 1 {
			c.Close()
			return
		}
		answer200(c, h.stream)
	}
	const stream, stale = "pa: rejected unprocessed; ", "pa: connection lost before the response; "
	for _, tc := range []struct {
		name        string
		f           func(net.Conn, int, frame)
		before      int // requests that are answered
		load, spent bool
		want        []string
	}{
		{"GOAWAY", goaway, 0, false, false, []string{stream + nextStream, "pa: OK; "}},
		{"GOAWAY without the budget for what is no load", goaway, 0, true, true, []string{stream + noneBudget}},
		{"refused", refused, 0, false, false, []string{stream + noneBudget}},
		{"refused within the budget", refused, 0, true, false, []string{stream + nextStream, stream + noneOrigin}},
		{"kept and closed", kept, 1, false, false, []string{stale + nextFresh, "pa: OK; "}},
		{"kept and closed without the budget for what is no load", kept, 1, true, true, []string{stale + noneBudget}},
	} {
		bubbleTest(t, tc.name, func(t *testing.T) {
			p := plainPool("p", "192.0.2.1:80")
			p.Transport.Protocol, p.Transport.DialContext = ProtocolHTTP2, dialling(t, rawHTTP2(tc.f))
			if !tc.load {
				p.Retry = Retry{Percent: -1, Floor: -1}
			}
			b := newBalancer(t, Options{Pools: []Pool{p}})
			for range tc.before {
				require.NoError(t, ask(t, b, "GET", "http://x.test/", "").err)
			}
			if tc.spent {
				spent := &b.view.Load().all[0].shared.budget
				for i := range spent.seconds {
					spent.seconds[i].taken[1] = 1000
				}
				spent.last = time.Now().Unix()
			}
			assert.Equal(t, tc.want, ask(t, b, "GET", "http://x.test/", "").trail.attempts())
		})
	}
}

// What reached no process of an origin may be repeated more often than what did, or may
// have: a handshake that hangs is work.
func TestWhatReachedNobody(t *testing.T) {
	var got []Failure
	for f := FailureNone; f <= FailureUpload; f++ {
		if (&TransportError{Failure: f}).unreached() {
			got = append(got, f)
		}
	}
	assert.Equal(t, []Failure{FailureResolve, FailureDial}, got)
}

// A clock that goes back gives nothing back.
func TestBudgetStandsWhenTheClockGoesBack(t *testing.T) {
	b, now := &budget{}, time.Unix(1000, 0)
	var got []bool
	for _, d := range []time.Duration{0, 0, -10 * time.Second, 0, 9 * time.Second, 10 * time.Second} {
		got = append(got, b.take(now.Add(d), 0, 1))
	}
	assert.Equal(t, []bool{true, false, false, false, false, true}, got)
}

// An origin that answers before it has the body, with an answer that is passed on since
// it may not be repeated, gets the rest of the body.
func TestUploadGoesOnWithAnAnswerThatIsntRepeated(t *testing.T) {
	early := listen(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n")
		b, err := io.ReadAll(req.Body)
		fmt.Fprintf(c, "%s %v", b, err)
	})
	p := plainPool("p", early, early)
	p.Retry = Retry{Percent: -1, Floor: -1}
	b := newBalancer(t, Options{Pools: []Pool{p}})
	pr, pw := io.Pipe()
	go io.WriteString(pw, "begun ")
	ctx, trail := WithTrail(background)
	req, err := http.NewRequestWithContext(ctx, "PUT", "http://shop.test/", pr)
	require.NoError(t, err)
	res, err := b.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	io.WriteString(pw, "ended")
	pw.Close()
	text, err := io.ReadAll(res.Body)
	assert.Equal(t, []any{503, "begun ended <nil>", nil}, []any{res.StatusCode, string(text), err})
	assert.Equal(t, []string{"pa: Service Unavailable; " + noneBudget}, trail.Record().attempts())
}

// After one kept connection that was closed, another kept one isn't tried: it would be
// closed as well.
func TestSecondAttemptIsOnANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int32
		both := make(chan struct{})
		p := plainPool("p", "192.0.2.1:80")
		p.Transport.DialContext = dialling(t, func(c net.Conn) {
			br := bufio.NewReader(c)
			for i := range 2 {
				if _, err := http.ReadRequest(br); err != nil || i == 1 {
					return
				}
				if count.Add(1) == 2 {
					close(both)
				}
				<-both
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		})
		b := newBalancer(t, Options{Pools: []Pool{p}})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { assert.NoError(t, ask(t, b, "GET", "http://x.test/", "").err) })
		}
		wg.Wait()
		synctest.Wait()
		assert.Equal(t, []string{"pa: connection lost before the response; " + nextFresh, "pa: OK; "}, ask(t, b, "GET", "http://x.test/", "").trail.attempts())
	})
}

// With Unsent, a POST goes on if it is certain that no origin has it, and only then.
func TestPostGoesOnOnlyIfNobodyHasIt(t *testing.T) {
	cutting := newSite(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	var seen atomic.Int32
	refusing := listen(t, rawHTTP2(func(c net.Conn, conn int, h frame) {
		if seen.Add(1) == 1 {
			writeFrame(c, frame{kind: frameReset, stream: h.stream, data: []byte{0, 0, 0, http2RefusedStream}})
			return
		}
		answer200(c, h.stream)
	}))
	for _, tc := range []struct {
		address  string
		protocol Protocol
		unsent   bool
		want     []string
	}{
		{cutting.address(), ProtocolHTTP1, true, []string{"pa: connection lost before the response; " + noneMethod}},
		{refusing, ProtocolHTTP2, true, []string{"pa: rejected unprocessed; " + nextStream, "pa: OK; "}},
		{deadAddress(t), ProtocolHTTP1, false, []string{"pa: connection refused; " + noneMethod}},
	} {
		p := plainPool("p", tc.address, deadAddress(t))
		p.Transport.Protocol, p.Retry.Unsent = tc.protocol, tc.unsent
		b := newBalancer(t, Options{Pools: []Pool{p}})
		assert.Equal(t, tc.want, ask(t, b, "POST", "http://x.test/", "").trail.attempts())
	}
}
