package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The origin's pages.
const (
	newsPage    = "/news"    // may be kept for ten minutes
	reportPage  = "/report"  // the same, streamed in pieces
	accountPage = "/account" // sets a session cookie, and says wrongly that it may be shared
	stockPage   = "/stock"   // fresh for a moment; then stale while it's refreshed
	manualPage  = "/manual"  // fresh for a moment; then to be confirmed by its ETag
	cartPage    = "/cart"    // never to be kept

	itemPage     = "/item/" // one of many, may be kept for ten minutes
	checkoutPage = "/checkout"
)

// briefly is how long /stock and /manual are fresh. A response's age counts
// from the request, so it's more than a render takes.
const briefly = 2 * time.Second

const etag = `"1"`

// origin is a slow website that counts its work.
type origin struct {
	plan
	pages map[string]func(http.ResponseWriter, *http.Request)

	mu       sync.Mutex
	renders  map[string]int
	sessions int
	working  int // on items and checkouts, at once
	peak     int // the most of that
}

func newOrigin(p plan) *origin {
	o := &origin{plan: p, renders: map[string]int{}}
	o.pages = map[string]func(http.ResponseWriter, *http.Request){
		newsPage:    o.news,
		reportPage:  o.report,
		accountPage: o.account,
		stockPage:   o.briefly(", stale-while-revalidate=600"),
		manualPage:  o.briefly(""),
		cartPage:    o.cart,

		checkoutPage: o.checkout,
	}
	return o
}

// rendered returns how often the page was rendered, in whole or in part.
func (o *origin) rendered(page string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.renders[page]
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := o.pages[r.URL.Path]
	if strings.HasPrefix(r.URL.Path, itemPage) {
		page = o.item
	}
	if page == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page(w, r)
}

func (o *origin) news(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=600")
	n := o.count(r)
	if wait(r, o.render) {
		fmt.Fprintf(w, "<h1>News</h1><p>Render %d of this page.</p>\n", n)
	}
}

func (o *origin) report(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=600")
	n := o.count(r)
	for i := range o.chunks {
		if !wait(r, o.gap) {
			panic(http.ErrAbortHandler) // half a page must not look whole
		}
		fmt.Fprintf(w, "<p>Part %d of %d, render %d.</p>\n", i+1, o.chunks, n)
		_ = http.NewResponseController(w).Flush()
	}
}

func (o *origin) account(w http.ResponseWriter, r *http.Request) {
	o.count(r)
	if !wait(r, o.render) {
		return
	}
	o.mu.Lock()
	o.sessions++
	session := fmt.Sprintf("s%d", o.sessions)
	o.mu.Unlock()
	// The classic mistake: this page is one visitor's own.
	w.Header().Set("Cache-Control", "public, max-age=600")
	http.SetCookie(w, &http.Cookie{Name: "session", Value: session, Path: "/", HttpOnly: true})
	_, _ = io.WriteString(w, session)
}

// briefly is a page that is soon stale.
func (o *origin) briefly(directives string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d%s", briefly/time.Second, directives))
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified) // at once: nothing to render
			return
		}
		n := o.count(r)
		if wait(r, o.render) {
			fmt.Fprintf(w, "<h1>%s</h1><p>Render %d of this page.</p>\n", r.URL.Path, n)
		}
	}
}

func (o *origin) cart(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	n := o.count(r)
	if wait(r, o.render) {
		fmt.Fprintf(w, "<h1>Your cart</h1><p>Render %d of this page.</p>\n", n)
	}
}

func (o *origin) item(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=600")
	if o.work(r) {
		fmt.Fprintf(w, "<h1>%s</h1>\n", r.URL.Path)
	}
}

func (o *origin) checkout(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if o.work(r) {
		fmt.Fprintln(w, "<h1>Thank you</h1>")
	}
}

// work is a render of which the origin notes how many there are at once.
func (o *origin) work(r *http.Request) bool {
	o.mu.Lock()
	o.renders[r.URL.Path]++
	o.working++
	o.peak = max(o.peak, o.working)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.working--
		o.mu.Unlock()
	}()
	return wait(r, o.render)
}

// peaked returns how many items and checkouts were rendered at once at most.
func (o *origin) peaked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peak
}

// count counts a render of the page that begins now.
func (o *origin) count(r *http.Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renders[r.URL.Path]++
	return o.renders[r.URL.Path]
}

// wait is the work. It returns false if nobody waits for it any more.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
