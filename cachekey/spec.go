package cachekey

import (
	"net/http"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
)

// textBuffer is the longest key text, in bytes, that is built without an
// allocation. An ordinary URL's text has 70 to 250 bytes.
const textBuffer = 512

// Spec is a set of key rules. It is immutable, and all its methods may be called
// concurrently. The zero Spec is [Default].
type Spec struct {
	query            queryRule
	headers          []headerRule // sorted by lower
	cookies          []string     // sorted
	normalize        []headerRule // sorted by lower
	dropOtherCookies bool
	lists            bool // compare selecting fields as lists
	keepUnkeyed      bool
}

// headerRule is a header field and how its value is reduced.
type headerRule struct {
	canonical string // as http.Header has it
	lower     string // as the text has it
	norm      Normalizer
}

// Input is what a key is made from. It is only read, never kept.
type Input struct {
	// Request must have a URL. Its body, context and RemoteAddr are never used.
	Request *http.Request
	// Zone keeps caches apart that share a store: a site, a tenant, or one of two
	// middlewares mounted behind different [http.StripPrefix] handlers, which see
	// the same paths. Empty: no zone.
	Zone string
	// Scheme is http or https, in any case, as resolved from the connection and
	// trusted proxies; anything else is [UnknownScheme]. Empty: https if
	// Request.TLS is set, else http. A request that this program made itself
	// (RequestURI is empty) has its URL's scheme.
	Scheme string
	// Host is the host, perhaps with a port, as resolved from the request and
	// trusted proxies. Empty: Request.Host, else the URL's.
	Host string
	// Method, if set, is keyed instead of Request.Method: with "GET", the key that
	// an unsafe request invalidates (RFC 9111 §4.4).
	Method string
	// User is the user for whom a private response is kept. Empty: the response is
	// shared. Whoever asks for a user's id must refuse an empty one.
	User string
	// Extra are pairs from the application. They are sorted by name; pairs of one
	// name keep their order.
	Extra []Pair
}

// Pair is a name and a value. Either may hold any bytes.
type Pair struct {
	Name, Value string
}

// Problem says why a request has no key and can't be cached. Zero: it has one.
type Problem uint8

// The problems.
const (
	NoProblem        Problem = iota
	UnknownParameter         // a parameter outside Include, with OnUnknown: Bypass
	UnknownScheme            // a scheme that is neither http nor https
	NoTarget                 // no request, no URL, or a target without a path
)

// String returns the reason as one sentence, or nothing for [NoProblem].
func (p Problem) String() string {
	switch p {
	case NoProblem:
		return ""
	case UnknownParameter:
		return "The query has a parameter that the key rules don't list."
	case UnknownScheme:
		return "The scheme is neither http nor https."
	case NoTarget:
		return "The request target has no path."
	}
	return "The request can't be keyed."
}

// Primary returns the key of a request before its selecting header fields, or the
// problem for which it has none; the key is zero then. It costs one pass over the
// keyed parts plus one BLAKE3 hash, and allocates nothing for texts of up to 512
// bytes with 16 parameters.
func (s *Spec) Primary(in *Input) (Key, Problem) {
	var buf [textBuffer]byte
	text, problem := s.AppendText(buf[:0], in)
	if problem != NoProblem {
		return Key{}, problem
	}
	return blake3.Sum256(text), NoProblem
}

// Text returns the canonical text whose hash is the primary key. With a problem it
// is what could be said, and belongs to no key.
func (s *Spec) Text(in *Input) string {
	text, _ := s.AppendText(nil, in)
	return string(text)
}

// AppendText appends the canonical text whose hash is the primary key; see
// [Parse] for its form.
func (s *Spec) AppendText(dst []byte, in *Input) ([]byte, Problem) {
	r := in.Request
	if r == nil || r.URL == nil {
		return dst, NoTarget
	}
	scheme, problem := in.scheme()
	host := in.host()
	if in.Zone != "" {
		dst = appendSingle(dst, KindZone, in.Zone)
	}
	dst = appendSingle(dst, KindScheme, scheme)
	dst = appendHost(dst, scheme, host)
	dst = appendTarget(dst, r, scheme, host)
	dst = appendSingle(dst, KindMethod, in.methodClass())
	if r.URL.Opaque != "" {
		dst = appendSingle(dst, KindOpaque, r.URL.Opaque)
		problem = NoTarget
	} else {
		dst = appendPath(dst, r.URL)
	}
	dst, unknown := s.query.appendTo(dst, r.URL.RawQuery, r.URL.ForceQuery)
	if problem == NoProblem {
		problem = unknown
	}
	for i := range s.headers {
		dst = s.headers[i].appendTo(dst, KindHeader, r.Header[s.headers[i].canonical])
	}
	if len(s.cookies) > 0 {
		dst = s.appendCookies(dst, r.Header["Cookie"])
	}
	if len(in.Extra) > 0 {
		dst = appendExtra(dst, in.Extra)
	}
	if in.User != "" {
		dst = appendSingle(dst, KindUser, in.User)
	}
	return trimLast(dst), problem
}

// scheme returns the scheme in lower case.
func (in *Input) scheme() (string, Problem) {
	scheme := in.Scheme
	if scheme == "" {
		scheme = schemeOf(in.Request)
	}
	switch {
	case scheme == "http" || scheme == "https":
		return scheme, NoProblem
	case equalFoldASCII(scheme, "http"):
		return "http", NoProblem
	case equalFoldASCII(scheme, "https"):
		return "https", NoProblem
	}
	return scheme, UnknownScheme
}

func schemeOf(r *http.Request) string {
	switch {
	case r.TLS != nil:
		return "https"
	case r.RequestURI == "" && r.URL.Scheme != "":
		return r.URL.Scheme
	}
	// The scheme of an absolute-form target is the client's word. Were it believed,
	// a redirect to https, given over http, could be stored under https.
	return "http"
}

func (in *Input) host() string {
	switch {
	case in.Host != "":
		return in.Host
	case in.Request.Host != "":
		return in.Request.Host
	}
	return in.Request.URL.Host
}

// methodClass returns GET for GET and HEAD, which share stored responses (RFC
// 9110 §9.3.2); every other method is its own class.
func (in *Input) methodClass() string {
	method := in.Method
	if method == "" {
		method = in.Request.Method
	}
	if method == "" || method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// appendExtra writes the pairs sorted by name, without touching the caller's
// slice.
func appendExtra(dst []byte, extra []Pair) []byte {
	byName := func(a, b Pair) int { return strings.Compare(a.Name, b.Name) }
	var small [8]Pair
	if !slices.IsSortedFunc(extra, byName) {
		if len(extra) <= len(small) {
			extra = insertionSorted(small[:0], extra)
		} else {
			extra = slices.Clone(extra)
			slices.SortStableFunc(extra, byName)
		}
	}
	for i := range extra {
		dst = appendNamed(dst, KindExtra, extra[i].Name, extra[i].Value)
	}
	return dst
}

// insertionSorted appends a stably sorted copy of a few pairs.
func insertionSorted(dst, pairs []Pair) []Pair {
	for _, p := range pairs {
		dst = append(dst, p)
		for i := len(dst) - 1; i > 0 && dst[i].Name < dst[i-1].Name; i-- {
			dst[i], dst[i-1] = dst[i-1], dst[i]
		}
	}
	return dst
}
