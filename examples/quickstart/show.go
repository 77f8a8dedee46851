package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// plan is the show's size and pace.
type plan struct {
	render  time.Duration // what a page costs the origin
	chunks  int           // of the streamed page
	gap     time.Duration // before each chunk
	herd    int           // visitors for the page that isn't cached yet
	readers int           // of the streamed page
	users   int           // of the page that sets a session cookie
	flood   int           // visitors at once on as many pages
	buyers  int           // who check out meanwhile, at most the reserve
	buys    int           // of each, one after the other
	// near is how close to the leader's first byte everyone else's must be. It
	// is generous, for busy machines; who waits for the whole page is further
	// away than that by far.
	near time.Duration
	// cache puts weir before a handler, and returns how to close it.
	cache func(http.Handler) (http.Handler, func(context.Context) error, error)
	// governor is the same, with limits of what the origin does at once.
	governor func(http.Handler) (http.Handler, func(context.Context) error, error)
}

func defaultPlan() plan {
	return plan{
		render: time.Second, chunks: 5, gap: 400 * time.Millisecond,
		herd: 100, readers: 20, users: 50, flood: 60, buyers: reserve, buys: 3,
		near: 200 * time.Millisecond, cache: withWeir, governor: withGovernor,
	}
}

// scene is a part of the show. Its String is what the screen shows of it.
type scene interface {
	fmt.Stringer
	result() *verdict
}

// play gives the whole show, and calls shown after each scene.
func (s *stage) play(ctx context.Context, shown func(scene)) *report {
	start := time.Now()
	r := &report{verdict: newVerdict(), Origin: s.originURL, Weir: s.weirURL, Plain: s.plainURL}
	end := func(name string, sc scene) {
		for _, off := range sc.result().Off {
			r.must(false, "%s: %s", name, off)
		}
		shown(sc)
	}
	aged := make(chan error, 1)
	go func() { aged <- s.age(ctx) }() // meanwhile: showAnswers needs stale pages
	load := make(chan *loadFigures, 1)
	go func() { load <- s.showLoad(ctx) }() // it takes as long as all the others

	r.Cold = s.showCold(ctx)
	end("cold URL", r.Cold)
	r.Stream = s.showStream(ctx)
	end("stream", r.Stream)
	r.Sessions = s.showSessions(ctx)
	end("sessions", r.Sessions)
	r.Answers = s.showAnswers(ctx, aged)
	end("answers", r.Answers)
	r.Load = <-load
	end("load", r.Load)
	r.Seconds = round(time.Since(start).Seconds())
	return r
}
