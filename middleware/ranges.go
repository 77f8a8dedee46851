package middleware

import (
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
)

// respondRanges answers with parts of a stored response, or with 416. It
// returns false if the whole is the answer.
func (x *exchange) respondRanges(o *store.Object, asked rfc9110.Ranges, h http.Header) bool {
	size := o.BodySize()
	parts, outcome := asked.Resolve(size)
	switch {
	case outcome == rfc9110.RangeIgnored:
		return false
	case outcome == rfc9110.RangeUnsatisfiable:
		x.unsatisfiable(h, size)
	case len(parts) == 1:
		p := parts[0]
		stripDigests(h)
		h["Content-Range"] = []string{p.ContentRange(size)}
		h["Content-Length"] = []string{strconv.FormatInt(p.Length, 10)}
		x.head(http.StatusPartialContent)
		x.sendStored(o, p.Start, p.Length)
	default:
		x.multipart(o, parts, h)
	}
	return true
}

// stripDigests removes digests of the whole as content, which the answer doesn't have
// (RFC 9530 §2). Those of the representation stay.
func stripDigests(h http.Header) {
	delete(h, "Content-Digest")
	delete(h, "Content-Md5")
}

// unsatisfiable answers 416: the header of the stored response has no place in
// it but for what caches need.
func (x *exchange) unsatisfiable(h http.Header, size int64) {
	for _, name := range [...]string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition", "Repr-Digest", "Etag", "Last-Modified"} {
		delete(h, name)
	}
	stripDigests(h)
	delete(h, "Expires")
	h["Cache-Control"] = []string{"no-store"} // the page's own is not about this
	h["Content-Range"] = []string{rfc9110.UnsatisfiedRange(size)}
	h["Content-Length"] = []string{"0"}
	x.head(http.StatusRequestedRangeNotSatisfiable)
}

// multipart answers with several parts (RFC 9110 §14.6).
func (x *exchange) multipart(o *store.Object, parts []rfc9110.Range, h http.Header) {
	stripDigests(h)
	mw := multipart.NewWriter(bodyWriter{x})
	size := o.BodySize()
	kind := ""
	if said := h["Content-Type"]; len(said) > 0 {
		kind = said[0]
	}
	h["Content-Type"] = []string{"multipart/byteranges; boundary=" + mw.Boundary()}
	h["Content-Length"] = []string{strconv.FormatInt(multipartLength(parts, size, kind, mw.Boundary()), 10)}
	x.head(http.StatusPartialContent)
	for _, p := range parts {
		if _, err := mw.CreatePart(partHeader(p, size, kind)); err != nil {
			return // bodyWriter has cut the connection; not reached
		}
		x.sendStored(o, p.Start, p.Length) // past mw, which would only hand it on
	}
	_ = mw.Close()
}

func partHeader(p rfc9110.Range, size int64, kind string) textproto.MIMEHeader {
	h := textproto.MIMEHeader{"Content-Range": {p.ContentRange(size)}}
	if kind != "" {
		h["Content-Type"] = []string{kind}
	}
	return h
}

func multipartLength(parts []rfc9110.Range, size int64, kind, boundary string) int64 {
	var n counter
	mw := multipart.NewWriter(&n)
	if err := mw.SetBoundary(boundary); err != nil {
		panic(fmt.Sprintf("middleware: multipart's own boundary: %v", err))
	}
	for _, p := range parts {
		_, _ = mw.CreatePart(partHeader(p, size, kind))
		n += counter(p.Length)
	}
	_ = mw.Close()
	return int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// bodyWriter writes to the client of an exchange.
type bodyWriter struct{ x *exchange }

func (b bodyWriter) Write(p []byte) (int, error) {
	b.x.write(p)
	return len(p), nil
}
