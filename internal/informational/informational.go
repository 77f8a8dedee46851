// Package informational writes 1xx responses.
package informational

import "net/http"

const contentLength = "Content-Length"

// Write sends a 1xx response with the fields of w.Header(), which may be changed after
// it. After w.WriteHeader alone it may not: over HTTP/2 net/http encodes that very map
// in another goroutine, and doesn't wait for it if the client resets the stream
// (golang/go#67940). It encodes a copy if there is a field that no 1xx response may
// have, even one without values, which is sent to nobody.
func Write(w http.ResponseWriter, status int) {
	h := w.Header()
	length, had := h[contentLength]
	h[contentLength] = nil
	w.WriteHeader(status)
	if had {
		h[contentLength] = length
	} else {
		delete(h, contentLength)
	}
}
