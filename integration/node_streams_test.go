package integration

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Events arrive one by one, and the head before the first of them, whether the
// client says what it wants or not.
func TestNodeEvents(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		for i, header := range [][]string{{"Accept", "text/event-stream"}, {"Accept", "*/*"}} {
			t.Run(header[1], func(t *testing.T) {
				path := fmt.Sprintf("/events/%d-%d", len(args), i)
				streams := make(chan *stream, 1)
				go func() { streams <- open(t, c, p.url+path, header...) }()
				a.await(path, 1)
				var s *stream
				select {
				case s = <-streams: // before there is any event
				case <-time.After(2 * time.Second): // ten thousand times as long as it takes
					t.Error("the head came only with the first event")
					a.release(path)
					a.await(path, 1)
					s = await(t, streams)
					assert.Equal(t, "data: event 1\n\n", s.read(t, 15))
					return
				}
				assert.Equal(t, "text/event-stream", s.Header.Get("Content-Type"))
				for n := 1; n <= 5; n++ {
					a.release(path)
					event := fmt.Sprintf("data: event %d\n\n", n)
					assert.Equal(t, event, s.read(t, len(event)))
					a.await(path, 1)
				}
				s.leave()
				eventually(t, "the origin sees that the client left", func() bool { return a.seen(path).Cut == 1 })
			})
		}
	})
}

// Two who listen to the same events each have an own connection.
func TestNodeEventsForTwo(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	const accept = "text/event-stream"
	one, two := open(t, c, p.url+"/events/two", "Accept", accept), open(t, c, p.url+"/events/two", "Accept", accept)
	a.await("/events/two", 2)
	a.release("/events/two")
	assert.Equal(t, "data: event 1\n\n", one.read(t, 15))
	assert.Equal(t, "data: event 1\n\n", two.read(t, 15))
	one.leave()
	a.await("/events/two", 1)
	a.release("/events/two")
	assert.Equal(t, "data: event 2\n\n", two.read(t, 15))
	assert.Equal(t, 2, a.seen("/events/two").Count)
}

const upgrade = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: %s\r\nUpgrade: %s\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"

// A switch of protocols, and then bytes in both directions until one side ends.
func TestNodeUpgrade(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p := startProxy(t, a.url, args...)
		for i, connection := range []string{"Upgrade", "keep-alive, Upgrade", "upgrade"} {
			path := fmt.Sprintf("/upgrade/%d-%d", len(args), i)
			conn, r := dial(t, p.addr, fmt.Sprintf(upgrade, path, connection, "websocket"))
			resp := readResponse(t, r)
			require.Equal(t, 101, resp.StatusCode)
			assert.Equal(t, "websocket", resp.Header.Get("Upgrade"))
			for n := range 5 {
				text := fmt.Sprintf("message %d \x00\xff\n", n)
				_, err := io.WriteString(conn, text)
				require.NoError(t, err)
				got := make([]byte, len(text))
				_, err = io.ReadFull(r, got)
				require.NoError(t, err)
				assert.Equal(t, text, string(got))
			}
			require.NoError(t, conn.Close())
			eventually(t, "the origin's end is closed too", func() bool { return a.seen(path).Cut == 1 })
		}
	})
}

// The origin declines: the client gets its answer, and nothing that it sent
// along gets past the rules for requests.
func TestNodeUpgradeDeclined(t *testing.T) {
	a := startApp(t)
	p := startProxy(t, a.url)
	smuggled := "GET /page/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	_, r := dial(t, p.addr, fmt.Sprintf(upgrade, "/declined/a", "Upgrade", "websocket"))
	resp := readResponse(t, r)
	assert.Equal(t, 200, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "no thanks", string(body))

	_, r = dial(t, p.addr, fmt.Sprintf(upgrade, "/declined/b", "Upgrade", "websocket")+smuggled)
	resp = readResponse(t, r)
	assert.Equal(t, 200, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	// A request like any other that comes next on the connection.
	resp = readResponse(t, r)
	assert.Equal(t, "MISS", resp.Header.Get(statusField), "it's the proxy that answers")
}

// An upgrade to HTTP/2 would be a tunnel through which requests pass that no
// rule has seen.
func TestNodeUpgradeToHTTP2(t *testing.T) {
	a := startApp(t)
	p := startProxy(t, a.url)
	_, r := dial(t, p.addr, "GET /upgrade/h2c HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	assert.NotEqual(t, 101, readResponse(t, r).StatusCode)
}
