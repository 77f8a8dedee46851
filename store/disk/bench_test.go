package disk

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// requestForEver is the other end of BenchmarkServe, in a process of its own so
// that its CPU isn't counted: it reads responses to nowhere, and tells after
// each command how many it has had.
func requestForEver() {
	addr := os.Getenv("WEIR_DISK_ADDR")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var path string
		var n int
		_, _ = fmt.Sscan(in.Text(), &path, &n)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { requestMany(addr, path, n/4) })
		}
		wg.Wait()
		fmt.Println("done")
	}
}

func requestMany(addr, path string, n int) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	r := bufio.NewReaderSize(c, 256<<10)
	for range n {
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			panic(err)
		}
		got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, make([]byte, 256<<10))
		if err != nil || got != resp.ContentLength {
			panic(fmt.Sprint(got, err))
		}
	}
	_ = c.Close()
}

// handler sends an object the way a middleware would.
func handler(d *Tier, k store.Key) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, ok := d.Get(k)
		if !ok {
			http.Error(w, "miss", http.StatusBadGateway)
			return
		}
		f, err := o.Content.Open()
		if err != nil {
			http.Error(w, "miss", http.StatusBadGateway)
			return
		}
		defer func() { _ = f.Close() }()
		o.Header.CopyTo(w.Header(), 0)
		w.Header().Set("Content-Length", o.Length)
		if _, err := store.CopySection(w, f, 0, o.Content.Size(), nil); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServe sends 4 MiB over loopback from the tier and by ServeContent
// from the same file, in turns. It reports the tier's requests and CPU divided
// by the other's: both near 1 expected, and more CPU when each request finds
// the file not yet open, so that all of it is verified.
func BenchmarkServe(b *testing.B) {
	const size = 4 << 20
	d := openTier(b, Options{})
	k := key(1)
	require.Equal(b, store.Kept, d.Put(object(k, bytesOf(1, size))))
	plain := d.files.path(&k)
	mux := http.NewServeMux()
	mux.Handle("/tier", handler(d, k))
	mux.HandleFunc("/first", func(w http.ResponseWriter, r *http.Request) {
		d.handles.drop(&k)
		handler(d, k)(w, r)
	})
	mux.HandleFunc("/bare", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(plain)
		if err != nil {
			panic(err)
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Type", "text/plain")
		http.ServeContent(w, r, "", when, f)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	cmd := child(b, "client", "WEIR_DISK_ADDR="+s.Listener.Addr().String())
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	defer stop(b, cmd, in)
	lines := bufio.NewReader(out)
	spent := map[string]*[2]time.Duration{"/tier": {}, "/bare": {}, "/first": {}}
	run := func(path string, n int) {
		c, start := cpu(), time.Now()
		_, _ = fmt.Fprintln(in, path, n)
		_, err := lines.ReadString('\n')
		require.NoError(b, err)
		spent[path][0] += time.Since(start)
		spent[path][1] += cpu() - c
	}
	run("/tier", 100)
	run("/bare", 100)
	*spent["/tier"], *spent["/bare"] = [2]time.Duration{}, [2]time.Duration{}
	rounds := 0
	for b.Loop() {
		run("/tier", 100)
		run("/bare", 100)
		run("/first", 100)
		rounds++
	}
	t, o, first := spent["/tier"], spent["/bare"], spent["/first"]
	b.ReportMetric(float64(o[0])/float64(first[0]), "unverified-throughput-ratio")
	b.ReportMetric(float64(first[1])/float64(o[1]), "unverified-cpu-ratio")
	b.ReportMetric(float64(o[0])/float64(t[0]), "throughput-ratio")
	b.ReportMetric(float64(t[1])/float64(o[1]), "cpu-ratio")
	b.ReportMetric(float64(rounds)*100/t[0].Seconds(), "tier-req/s")
}

func stop(b *testing.B, cmd *exec.Cmd, in io.Closer) {
	_ = in.Close()
	require.NoError(b, cmd.Wait())
}

// BenchmarkGet varies what has to be done: nothing but a look whether the file
// has changed, opening a small file or a large one, or finding out that it's
// not there.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 20} {
		d := scanned(b, openTier(b, Options{}))
		k, vk := key(1), key(3)
		d.Put(object(k, make([]byte, size)))
		d.Put(variant(key(2), vk, make([]byte, size), "accept"))
		get := func(k store.Key, before func()) func(b *testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					before()
					if _, ok := d.Get(k); !ok {
						b.Fatal("miss")
					}
				}
			}
		}
		name := strconv.Itoa(size>>10) + "KiB/"
		b.Run(name+"open", get(k, func() {}))
		b.Run(name+"open-variant", get(vk, func() {}))
		b.Run(name+"closed", get(k, func() { d.handles.drop(&k) }))
		b.Run(name+"load", func(b *testing.B) {
			for b.Loop() {
				o, _ := d.Get(k)
				if _, err := o.Load(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	d := scanned(b, openTier(b, Options{}))
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.Get(key(1))
		}
	})
	d.scanned.Store(false)
	b.Run("miss-while-scanning", func(b *testing.B) {
		for b.Loop() {
			d.Get(key(1))
		}
	})
}

// BenchmarkStart opens a directory of 20,000 files. A start takes the same time
// however many there are; the first Get finds its file by name.
func BenchmarkStart(b *testing.B) {
	const files = 20_000
	d := openTier(b, Options{})
	for i := range files {
		d.Put(object(key(i), []byte("small")))
	}
	require.NoError(b, d.Close(b.Context()))
	var first, scan time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		d, err := Open(Options{Dir: d.files.dir, ScanRate: -1})
		require.NoError(b, err)
		_, ok := d.Get(key(n % files))
		require.True(b, ok)
		first += time.Since(start)
		scanned(b, d)
		scan += time.Since(start)
		n++
		require.EqualValues(b, files, d.Stats().Objects)
		require.NoError(b, d.Close(b.Context()))
	}
	b.ReportMetric(float64(first.Microseconds())/float64(n), "µs-to-first-hit")
	b.ReportMetric(float64(scan.Nanoseconds())/float64(n)/files, "ns-scan/file")
}

// BenchmarkPut varies the size and what is forced out.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		for _, s := range []Sync{SyncNever, SyncFile} {
			b.Run(fmt.Sprintf("%dKiB/sync=%d", size>>10, s), func(b *testing.B) {
				d := openTier(b, Options{Sync: s, MaxBytes: 256 << 20})
				body := make([]byte, size)
				i := 0
				for b.Loop() {
					d.Put(object(key(i), body))
					i++
				}
			})
		}
	}
}
