package lb

import (
	"errors"
	"net/http"
	"net/textproto"
	"strings"
)

var errSpacedFraming = errors.New("whitespace before the colon of a field that says where the body ends")

// unspace gives fields their names that came with whitespace before the colon. net/http
// takes them for others, and a proxy must remove it (RFC 9112 §5.1). Where the body ends
// was found out without them, so that it may be wrong.
func unspace(h http.Header) error {
	for name, values := range h {
		if name == "" || name[len(name)-1] != ' ' {
			continue
		}
		proper := textproto.CanonicalMIMEHeaderKey(strings.TrimRight(name, " "))
		if proper == "Content-Length" || proper == "Transfer-Encoding" {
			return errSpacedFraming
		}
		delete(h, name)
		addFields(h, http.Header{proper: values})
	}
	return nil
}
