package testnet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
)

// Script says how to answer one request. Its steps happen in the order of the
// fields. The zero value answers 200 with nothing. An origin only reads its
// scripts, so one may serve many requests at once.
//
// When the request's context ends while the script waits at a gate, the script
// breaks off as httputil.ReverseProxy does: it panics with
// [http.ErrAbortHandler], so that a body cut short never looks whole.
type Script struct {
	// Stubborn makes gates wait on even when the request's context has ended.
	Stubborn bool
	// ReadBody reads the request's body to its end first and keeps it in the
	// origin's record of the request.
	ReadBody bool
	// Gate holds back everything below.
	Gate *Gate
	// Do, if set, takes over from here: the rest is ignored.
	Do http.HandlerFunc
	// Informational are the 1xx responses to send before the head.
	Informational []Head
	// Panic, if not nil, is panicked with before the head. Use AbortChunk to
	// do so later.
	Panic any
	// Status is the status code; 0 means 200.
	Status int
	// Header is the header to send. Names go out as they are spelt.
	Header http.Header
	// FlushHead sends the head before the first chunk is written, and so
	// before that chunk's gate.
	FlushHead bool
	// Body are the parts of the body. Each is flushed by itself when there
	// is more than one.
	Body []Chunk
	// Trailer is sent after the body. Over HTTP/1.1 the body has to be
	// chunked for that.
	Trailer http.Header
	// Raw takes over the connection and writes head and chunks to it as they
	// are, then closes it. Nothing is added: a Content-Length is what Header
	// says, however long the body is. Without one the body ends with the
	// connection. A Panic, of whatever value, just closes it early. Raw works
	// only for HTTP/1 requests from a server.
	Raw bool
}

// Head is the status and the header of a 1xx response.
type Head struct {
	// Status is 100 to 199.
	Status int
	// Header is the header to send.
	Header http.Header
}

// Chunk is a part of a body.
type Chunk struct {
	// Gate holds the chunk back.
	Gate *Gate
	// Data is the content.
	Data string
	// Panic, if not nil, is panicked with after Data was sent.
	Panic any
}

// Text returns a script that answers with a status, a body, and a header given
// as pairs of names and values.
func Text(status int, body string, header ...string) *Script {
	s := &Script{Status: status, Header: Header(header...)}
	if body != "" {
		s.Body = []Chunk{{Data: body}}
	}
	return s
}

// Header returns a header made from pairs of names and values. A name may
// repeat. It panics if a value is missing.
func Header(pairs ...string) http.Header {
	if len(pairs)%2 != 0 {
		panic(fmt.Sprintf("testnet: %d header strings are not pairs", len(pairs)))
	}
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Chunks returns a chunk for each string, without gates.
func Chunks(data ...string) []Chunk {
	out := make([]Chunk, len(data))
	for i, d := range data {
		out[i].Data = d
	}
	return out
}

// AbortChunk returns a chunk that sends data and then aborts the response.
func AbortChunk(data string) Chunk {
	return Chunk{Data: data, Panic: http.ErrAbortHandler}
}

// WrongLength returns a script that announces a body of length bytes and sends
// body, whatever its length, and then closes the connection.
func WrongLength(length int, body string, header ...string) *Script {
	s := Text(http.StatusOK, body, header...)
	s.Header.Set("Content-Length", fmt.Sprint(length))
	s.Raw = true
	return s
}

func (s *Script) run(w http.ResponseWriter, r *http.Request, gotBody func(string)) {
	if s.ReadBody {
		b, err := io.ReadAll(r.Body)
		gotBody(string(b))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	s.wait(r, s.Gate)
	if s.Do != nil {
		s.Do(w, r)
		return
	}
	if s.Raw {
		s.raw(w, r)
		return
	}
	s.head(w)
	s.body(w, r)
	for name, values := range s.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

func (s *Script) wait(r *http.Request, g *Gate) {
	ctx := r.Context()
	if s.Stubborn {
		ctx = context.Background()
	}
	if g.Wait(ctx) != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *Script) status() int {
	if s.Status == 0 {
		return http.StatusOK
	}
	return s.Status
}

func (s *Script) head(w http.ResponseWriter) {
	h := w.Header()
	before := maps.Clone(h)
	for _, info := range s.Informational {
		for name, values := range info.Header {
			h[name] = slices.Clone(values)
		}
		w.WriteHeader(info.Status)
		clear(h)
		maps.Copy(h, before)
	}
	if s.Panic != nil {
		panic(s.Panic)
	}
	for name, values := range s.Header {
		h[name] = slices.Clone(values)
	}
	w.WriteHeader(s.status())
	if s.FlushHead {
		http.NewResponseController(w).Flush()
	}
}

func (s *Script) body(w http.ResponseWriter, r *http.Request) {
	for _, c := range s.Body {
		s.wait(r, c.Gate)
		if c.Data != "" {
			if _, err := io.WriteString(w, c.Data); err != nil {
				panic(http.ErrAbortHandler) // the client is gone, or too much was written
			}
			if len(s.Body) > 1 || c.Panic != nil || s.Trailer != nil {
				http.NewResponseController(w).Flush()
			}
		}
		if c.Panic != nil {
			panic(c.Panic)
		}
	}
}

// raw answers on the hijacked connection. Its waits can't follow the request's
// context, which a hijack detaches from the connection, so they also end when
// the client closes.
func (s *Script) raw(w http.ResponseWriter, r *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(fmt.Sprintf("testnet: a raw script needs an HTTP/1 server's ResponseWriter: %v", err))
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if s.Stubborn {
		ctx = context.Background()
	} else {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			io.Copy(io.Discard, rw.Reader)
			cancel()
		}()
		defer func() { conn.Close(); <-gone }()
	}
	s.writeRaw(ctx, rw.Writer)
}

func (s *Script) writeRaw(ctx context.Context, w *bufio.Writer) {
	for _, info := range s.Informational {
		writeRawHead(w, info.Status, info.Header)
	}
	if w.Flush() != nil || s.Panic != nil {
		return
	}
	writeRawHead(w, s.status(), s.Header)
	if w.Flush() != nil {
		return
	}
	for _, c := range s.Body {
		if c.Gate.Wait(ctx) != nil {
			return
		}
		w.WriteString(c.Data)
		if w.Flush() != nil || c.Panic != nil {
			return
		}
	}
}

func writeRawHead(w *bufio.Writer, status int, h http.Header) {
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			fmt.Fprintf(w, "%s: %s\r\n", name, v)
		}
	}
	w.WriteString("\r\n")
}
