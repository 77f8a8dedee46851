package lb

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// maxHops is the largest Max-Forwards that is passed on.
const maxHops = 999_999_999

// maxForwards returns how often an OPTIONS or TRACE request may still be passed on, if
// it says so (RFC 9110 §7.6.2). What isn't a number says nothing.
func maxForwards(r *http.Request) (int, bool) {
	lines := r.Header["Max-Forwards"]
	if len(lines) != 1 || r.Method != http.MethodOptions && r.Method != http.MethodTrace {
		return 0, false
	}
	s := field.TrimOWS(lines[0])
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	if s = strings.TrimLeft(s, "0"); len(s) > 9 {
		return maxHops + 1, true
	}
	n, _ := strconv.Atoi(s) // of none: 0
	return n, true
}

// lastHop answers a request that may be passed on no further. TRACE isn't echoed: it
// would show the fields that proxies before this one have added.
func lastHop(w http.ResponseWriter, r *http.Request) bool {
	n, ok := maxForwards(r)
	if !ok || n > 0 {
		return false
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	w.Header()["Allow"] = []string{"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}
	w.WriteHeader(http.StatusMethodNotAllowed)
	return true
}

// countHop lowers the Max-Forwards of a request that is passed on.
func countHop(in *http.Request, h http.Header) {
	if n, ok := maxForwards(in); ok {
		h["Max-Forwards"] = []string{strconv.Itoa(n - 1)}
	}
}
