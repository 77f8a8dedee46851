package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Each figure can be off by itself, and is then named.
func TestJudges(t *testing.T) {
	same := []visit{{body: "a"}, {body: "a"}}
	cold := func(change func(*coldFigures), visits []visit) *verdict {
		f := &coldFigures{verdict: newVerdict(), Visitors: 100, RendersWithout: 100, Renders: 1}
		change(f)
		f.judge(visits)
		return f.result()
	}
	stream := func(change func(*streamFigures), visits []visit) *verdict {
		f := &streamFigures{verdict: newVerdict(), Renders: 1, Chunks: 5, Gap: 400, Spread: 2, Bound: 200, Reading: 1600}
		change(f)
		f.judge(visits)
		return f.result()
	}
	sessions := func(change func(*sessionFigures)) *verdict {
		f := &sessionFigures{verdict: newVerdict(), Visitors: 50, Sessions: 50, Renders: 50}
		change(f)
		f.judge()
		return f.result()
	}
	load := func(change func(*loadFigures)) *verdict {
		f := &loadFigures{verdict: newVerdict(), Ceiling: 10, Peak: 10, Slowest: 1001, Bound: 1200}
		change(f)
		f.judge()
		return f.result()
	}
	reply := func(change func(*answer)) *verdict {
		a := &answer{verdict: newVerdict(), Want: "HIT", Status: "HIT", Reason: "the stored response is fresh"}
		change(a)
		a.judge(0)
		return a.result()
	}
	tests := []struct {
		got *verdict
		off string
	}{
		{cold(func(*coldFigures) {}, same), ""},
		{cold(func(f *coldFigures) { f.Renders = 2 }, same), "2 renders with weir instead of 1"},
		{cold(func(f *coldFigures) { f.Renders = 0 }, same), "0 renders with weir instead of 1"},
		{cold(func(f *coldFigures) { f.RendersWithout = 1 }, same), "1 render without weir instead of 100"},
		{cold(func(*coldFigures) {}, []visit{{body: "a"}, {body: "b"}}), "the visitors didn't all get the same page"},
		{stream(func(*streamFigures) {}, same), ""},
		{stream(func(f *streamFigures) { f.Renders = 20 }, same), "20 renders instead of 1"},
		{stream(func(f *streamFigures) { f.Spread = 1600 }, same), "a first byte 1.6 s from the leader's, more than 200 ms"},
		{stream(func(f *streamFigures) { f.Reading = 0.3 }, same), "only 0.3 ms from a visitor's first byte to the last, of 1.6 s"},
		{stream(func(*streamFigures) {}, []visit{{body: "ab"}, {body: "a"}}), "the visitors didn't all get the same page"},
		{sessions(func(*sessionFigures) {}), ""},
		{sessions(func(f *sessionFigures) { f.Sessions = 1 }), "1 different session instead of 50"},
		{sessions(func(f *sessionFigures) { f.Foreign = 49 }), "49 visitors got a page without the session of their cookie"},
		{sessions(func(f *sessionFigures) { f.Renders = 1 }), "1 render instead of 50"},
		{load(func(*loadFigures) {}), ""},
		{load(func(f *loadFigures) { f.Peak = 60 }), "60 renders at once at the origin instead of 10"},
		{load(func(f *loadFigures) { f.Peak = 6 }), "6 renders at once at the origin instead of 10"},
		{load(func(f *loadFigures) { f.Slowest = 2000 }), "a checkout took 2.0 s, more than 1.2 s"},
		{reply(func(*answer) {}), ""},
		{reply(func(a *answer) { a.Status = "MISS" }), `the status is "MISS"`},
		{reply(func(a *answer) { a.Reason = "" }), "there is no reason"},
		{reply(func(a *answer) { a.Renders = 1 }), "1 render instead of 0"},
	}
	for i, tt := range tests {
		if off := strings.Join(tt.got.Off, "; "); off != tt.off || tt.got.OK != (tt.off == "") {
			t.Errorf("%d: ok %v, off %q; want %q", i, tt.got.OK, off, tt.off)
		}
	}
}

// The spread counts from the leader, in both directions.
func TestSpreadCountsFromTheLeader(t *testing.T) {
	const ms = time.Millisecond
	visits := []visit{
		{status: "COLLAPSED", firstByte: 405 * ms, done: 2000 * ms},
		{status: "MISS", firstByte: 402 * ms, done: 2001 * ms},
		{status: "COLLAPSED", firstByte: 390 * ms, done: 1900 * ms},
	}
	f := &streamFigures{}
	f.measure(visits)
	equal(t, "leader", f.FirstByte, 402)
	equal(t, "spread", f.Spread, 12)
	equal(t, "reading", f.Reading, 1510)

	visits[1].status = "" // no cache: the first is the leader
	f.measure(visits)
	equal(t, "leader", f.FirstByte, 390)
	equal(t, "spread", f.Spread, 15)
}

func TestShowMarksWhatIsOff(t *testing.T) {
	v := newVerdict()
	equal(t, "ok", v.show("title", "line"), "ok   title\n       line\n")
	v.mustWork(errors.New("no network"))
	equal(t, "off", v.show("title", "line"), "OFF  title\n       line\n     ! no network\n")
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0.0 ms",
		1234 * time.Microsecond:  "1.2 ms",
		12345 * time.Microsecond: "12 ms",
		400 * time.Millisecond:   "400 ms",
		1649 * time.Millisecond:  "1.6 s",
	} {
		equal(t, d.String(), inMillis(d).String(), want)
	}
}
