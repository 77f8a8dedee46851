package testnet

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Origin is a handler that answers by script and remembers what it was asked.
// It works behind a server, behind a proxy, and called directly. Its methods
// may be called at any time from any goroutine.
type Origin struct {
	mu       sync.Mutex
	scripts  map[string][]*Script
	served   map[string]int // requests that took a script, per path of scripts
	requests []*Request
	inFlight int
	peak     int
}

// AnyPath is the path of the scripts for requests that no other path's match.
const AnyPath = "*"

// NewOrigin returns an origin that answers every request with 404, until told
// otherwise.
func NewOrigin() *Origin {
	return &Origin{scripts: map[string][]*Script{}, served: map[string]int{}}
}

// Handle replaces the scripts for path, an URL's path as sent (escaped and
// without the query) or [AnyPath]. The first request to come gets the first
// script, and so on; the last script serves all further ones.
func (o *Origin) Handle(path string, scripts ...*Script) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.scripts[path] = slices.Clone(scripts)
	o.served[path] = 0
}

// Request is what the origin got.
type Request struct {
	// Time is when it came.
	Time time.Time
	// Method and Host are as received.
	Method, Host string
	// URL is the request's target.
	URL *url.URL
	// Header is a copy of all header fields.
	Header http.Header
	// ContentLength is the announced length, -1 when unknown.
	ContentLength int64
	// Body is the body, if the script reads it.
	Body string
}

// Requests returns all requests, in the order in which they came.
func (o *Origin) Requests() []Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]Request, len(o.requests))
	for i, r := range o.requests {
		out[i] = *r
	}
	return out
}

// Last returns the newest request for path, and whether there was one.
func (o *Origin) Last(path string) (Request, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range slices.Backward(o.requests) {
		if r.URL.EscapedPath() == path {
			return *r, true
		}
	}
	return Request{}, false
}

// Count returns how many requests came for path, with any query.
func (o *Origin) Count(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, r := range o.requests {
		if r.URL.EscapedPath() == path {
			n++
		}
	}
	return n
}

// Total returns how many requests came.
func (o *Origin) Total() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.requests)
}

// InFlight returns how many requests are being answered now.
func (o *Origin) InFlight() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inFlight
}

// Peak returns how many requests were being answered at the same time at most.
func (o *Origin) Peak() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peak
}

// Forget drops the requests seen so far and the peak. Scripts go on where they
// are.
func (o *Origin) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = nil
	o.peak = o.inFlight
}

// ServeHTTP answers by the script whose turn it is.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	script, rec := o.begin(r)
	defer o.end()
	if script == nil {
		http.Error(w, fmt.Sprintf("testnet: no script for %s", r.URL.EscapedPath()), http.StatusNotFound)
		return
	}
	script.run(w, r, func(body string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		rec.Body = body
	})
}

func (o *Origin) begin(r *http.Request) (*Script, *Request) {
	u := *r.URL
	rec := &Request{
		Time: time.Now(), Method: r.Method, Host: r.Host, URL: &u,
		Header: r.Header.Clone(), ContentLength: r.ContentLength,
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, rec)
	o.inFlight++
	o.peak = max(o.peak, o.inFlight)

	path := r.URL.EscapedPath()
	if len(o.scripts[path]) == 0 {
		path = AnyPath
	}
	scripts := o.scripts[path]
	if len(scripts) == 0 {
		return nil, rec
	}
	n := o.served[path]
	o.served[path]++
	return scripts[min(n, len(scripts)-1)], rec
}

func (o *Origin) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight--
}
