package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// asEmpty makes the test's binary a server whose handler does nothing.
const asEmpty = "WEIR_TEST_EMPTY"

func serveEmpty() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening on http://%s, origin http://none\n", ln.Addr())
	panic(http.Serve(ln, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

// BenchmarkPurgeOverHTTP takes the time of PURGE requests to the command, in a process
// of its own, over one kept connection, by a client that does next to nothing. Each
// goes in turn with one to a server of an empty handler, in a process of its own, too.
// What counts are the medians; run it with -benchtime 20000x. An audit line is written
// for each purge, here to nowhere.
func BenchmarkPurgeOverHTTP(b *testing.B) {
	empty := dialServer(b, asEmpty)
	proxy := dialServer(b, asCommand, "-listen", "127.0.0.1:0", "-origin", "http://127.0.0.1:1", "-allow-purge", "127.0.0.1", "-tag-header", "Surrogate-Key")
	for _, c := range []struct{ name, target, field string }{
		{"by URL", "/products/%d?page=2", ""},
		{"by tag", "/", "Surrogate-Key: product-%d\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ours, theirs []time.Duration
			for i := 0; b.Loop(); i++ {
				target, field := c.target, c.field
				if field == "" {
					target = fmt.Sprintf(target, i)
				} else {
					field = fmt.Sprintf(field, i)
				}
				request := []byte("PURGE " + target + " HTTP/1.1\r\nHost: example.com\r\n" + field + "\r\n")
				theirs = append(theirs, empty.ask(b, request))
				ours = append(ours, proxy.ask(b, request))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			us := func(d time.Duration) float64 { return float64(d) / 1000 }
			n := len(ours)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(us(ours[n/2]), "µs")
			b.ReportMetric(us(theirs[n/2]), "empty-µs")
			b.ReportMetric(us(ours[n/2]-theirs[n/2]), "more-µs")
			b.ReportMetric(us(ours[n*99/100]), "p99-µs")
		})
	}
}

// wire is one connection to a server.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

// dialServer starts the test's binary as a server.
func dialServer(b *testing.B, as string, args ...string) *wire {
	b.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), as+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	m := ready.FindStringSubmatch(line[:len(line)-1])
	if m == nil {
		b.Fatalf("the first line is %q", line)
	}
	conn, err := net.Dial("tcp", m[1][len("http://"):])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &wire{conn, bufio.NewReader(conn)}
}

// ask sends a request and returns the time until the whole answer is there.
func (w *wire) ask(b *testing.B, request []byte) time.Duration {
	began := time.Now()
	if _, err := w.conn.Write(request); err != nil {
		b.Fatal(err)
	}
	length := 0
	for first := true; ; first = false {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			b.Fatalf("%q", line)
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		if len(line) == 2 {
			break
		}
	}
	if _, err := io.CopyN(io.Discard, w.in, int64(length)); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
