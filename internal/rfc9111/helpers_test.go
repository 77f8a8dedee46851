package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/field"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// header makes a header of names and values in turn. A value that starts with
// "@" is a date so many seconds after t0.
func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		v := kv[i+1]
		if off, ok := strings.CutPrefix(v, "@"); ok {
			d, err := time.ParseDuration(off + "s")
			if err != nil {
				panic(err)
			}
			v = field.FormatDate(t0.Add(d))
		}
		h.Add(kv[i], v)
	}
	return h
}

// get is an exchange that took no time.
func get(status int, response http.Header) *Exchange {
	return &Exchange{Method: "GET", Status: status, Header: response, Path: "/p", RequestedAt: t0, ReceivedAt: t0}
}

func withRequest(ex *Exchange, kv ...string) *Exchange {
	ex.RequestHeader = header(kv...)
	return ex
}

func after(d time.Duration) time.Time { return t0.Add(d) }
