package middleware

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that takes nothing holds nobody up: the origin is done, another client
// has it all, it's stored; and the first still gets all of it.
func TestStuckClientOfALargeBody(t *testing.T) {
	d := newDiskRig(t)
	d.body = randomBytes(1, 16<<20) // half of it is more than the system's buffers take
	half := make(chan struct{})
	d.hold = func(http.ResponseWriter) { <-half }
	conn, err := net.Dial("tcp", d.srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	// It leads once the head is there.
	first := make([]byte, 1)
	_, err = io.ReadFull(conn, first)
	require.NoError(t, err)
	var second sync.WaitGroup
	second.Go(func() {
		resp, body, err := d.do("GET", "/")
		assert.NoError(t, err)
		assert.Equal(t, "COLLAPSED", resp.Header.Get("Weir-Cache-Status"))
		assert.True(t, bytes.Equal(d.body, body))
	})
	require.Eventually(t, func() bool { return d.mw.Stats().FillBytes == 0 }, 10*time.Second, time.Millisecond)
	close(half)
	second.Wait()
	d.get2("HIT")
	rest := bytes.NewBuffer(make([]byte, 0, len(d.body)+64<<10))
	_, err = rest.ReadFrom(conn)
	require.NoError(t, err)
	require.Contains(t, string(rest.Next(2000)), "Weir-Cache-Status: MISS")
	d.askedOrigin(1)
}

// get2 is get without the record: others are under way.
func (d *diskRig) get2(word string) {
	d.t.Helper()
	resp, body, err := d.do("GET", "/")
	require.NoError(d.t, err)
	require.Equal(d.t, word, resp.Header.Get("Weir-Cache-Status"))
	require.True(d.t, bytes.Equal(d.body, body))
}

// A purge while a large body arrives: it isn't stored.
func TestPurgedWhileItSpills(t *testing.T) {
	d := newDiskRig(t)
	d.hold = func(w http.ResponseWriter) {
		_, _, err := d.do("POST", "/")
		assert.NoError(t, err)
	}
	_, body, err := d.do("GET", "/")
	require.NoError(t, err)
	require.True(t, bytes.Equal(d.body, body))
	d.hold = nil
	d.mw.fetches.Wait()
	require.Empty(t, d.objects())
	d.get2("MISS")
}

// A body that breaks off isn't stored, and leaves no file.
func TestBrokenWhileItSpills(t *testing.T) {
	d := newDiskRig(t)
	d.hold = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	_, body, err := d.do("GET", "/")
	require.Error(t, err)
	require.True(t, bytes.HasPrefix(d.body, body))
	<-d.records
	d.mw.fetches.Wait()
	require.Empty(t, d.objects())
	temps, err := os.ReadDir(filepath.Join(d.dir, "objects", "tmp"))
	require.NoError(t, err)
	require.Empty(t, temps)
	require.Zero(t, d.mw.Stats().Disk.Bytes)
}
