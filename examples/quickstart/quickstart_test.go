package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

func TestMain(m *testing.M) { testnet.MainCheck(m) }

// smallPlan has the whole show in little time.
func smallPlan() plan {
	p := defaultPlan()
	p.render, p.gap = 50*time.Millisecond, 100*time.Millisecond
	p.herd, p.readers, p.users = 20, 10, 10
	p.near = 5 * time.Second // whatever the machine
	return p
}

// ran is what became of a run.
type ran struct {
	code           int
	stdout, stderr string
}

func runOnce(t *testing.T, p plan, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr, p)
	return ran{code, stdout.String(), stderr.String()}
}

// figures reads the JSON strictly: it's all that may be on standard output.
func (r ran) figures(t *testing.T) *report {
	t.Helper()
	var out report
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%v in %s%s", err, r.stdout, r.stderr)
	}
	if rest, _ := io.ReadAll(d.Buffered()); strings.TrimSpace(string(rest)) != "" {
		t.Fatalf("after the object: %q", rest)
	}
	return &out
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The show that visitors see, at its real size and pace.
func TestFiguresAreAsStated(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.near = 800 * time.Millisecond // the race detector is slow; a cache that buffers is 1600 ms away
	got := runOnce(t, p, "-once", "-json")
	equal(t, "exit status", got.code, exitOK)
	equal(t, "stderr", got.stderr, "")
	r := got.figures(t)
	equal(t, "ok", r.OK, true)
	equal(t, "off", len(r.Off), 0)

	equal(t, "cold visitors", r.Cold.Visitors, 100)
	equal(t, "renders without weir", r.Cold.RendersWithout, 100)
	equal(t, "renders with weir", r.Cold.Renders, 1)
	equal(t, "leaders", r.Cold.Statuses["MISS"], 1)

	equal(t, "stream visitors", r.Stream.Visitors, 20)
	equal(t, "stream renders", r.Stream.Renders, 1)
	equal(t, "chunks", r.Stream.Chunks, 5)
	equal(t, "gap", r.Stream.Gap, 400)
	equal(t, "bound kept", r.Stream.Spread <= r.Stream.Bound, true)
	equal(t, "read along", r.Stream.Reading >= 800, true)

	equal(t, "session visitors", r.Sessions.Visitors, 50)
	equal(t, "sessions", r.Sessions.Sessions, 50)
	equal(t, "foreign", r.Sessions.Foreign, 0)
	equal(t, "never shared", r.Sessions.Statuses["DYNAMIC"], 50)

	equal(t, "flood", r.Load.Visitors, 60)
	equal(t, "peak at the origin", r.Load.Peak <= 10 && r.Load.Peak >= 10-reserve, true)
	equal(t, "checkouts", r.Load.Checkouts, 6)
	equal(t, "checkouts don't wait", r.Load.Slowest <= r.Load.Bound, true)

	want := []trace.Status{trace.Hit, trace.Stale, trace.Revalidated, trace.Bypass, trace.Dynamic}
	if len(r.Answers.Answers) != len(want) {
		t.Fatalf("%d answers, want %d", len(r.Answers.Answers), len(want))
	}
	for i, a := range r.Answers.Answers {
		equal(t, a.Page, a.Status, want[i].String())
		equal(t, a.Page+" has a reason", len(strings.Fields(a.Reason)) > 2, true)
	}
}

// Without weir nothing is as stated, and scripts must see that.
func TestWithoutACacheTheFiguresAreOff(t *testing.T) {
	t.Parallel()
	p := smallPlan()
	p.cache = func(next http.Handler) (http.Handler, func(context.Context) error, error) {
		return next, func(context.Context) error { return nil }, nil
	}
	p.governor = p.cache
	got := runOnce(t, p, "-once", "-json")
	equal(t, "exit status", got.code, exitOff)
	r := got.figures(t)
	equal(t, "ok", r.OK, false)
	equal(t, "cold ok", r.Cold.OK, false)
	equal(t, "renders", r.Cold.Renders, 20)
	equal(t, "sessions ok", r.Sessions.OK, true)
	for _, want := range []string{
		"cold URL: 20 renders with weir instead of 1",
		"stream: 10 renders instead of 1",
		`answers: /news (HIT): the status is ""`,
		"renders at once at the origin instead of 10",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in %s", want, got.stderr)
		}
	}
	equal(t, "lines on stderr", strings.Count(got.stderr, "\n"), 1)
}

// A cache that sends a page only when it has all of it makes one render out of
// many too. That isn't what is stated.
func TestABufferingCacheIsOff(t *testing.T) {
	t.Parallel()
	p := smallPlan()
	p.cache = func(next http.Handler) (http.Handler, func(context.Context) error, error) {
		cached, closeCache, err := withWeir(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			cached.ServeHTTP(rec, r)
			for name, values := range rec.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes())
		}), closeCache, err
	}
	got := runOnce(t, p, "-once")
	equal(t, "exit status", got.code, exitOff)
	const want = "stream: only "
	if !strings.Contains(got.stderr, want) || !strings.Contains(got.stdout, "OFF  10 visitors on a page") {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}

func TestCacheThatCannotBeMade(t *testing.T) {
	t.Parallel()
	p := smallPlan()
	p.cache = func(http.Handler) (http.Handler, func(context.Context) error, error) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	got := runOnce(t, p, "-once")
	equal(t, "exit status", got.code, exitOff)
	equal(t, "stderr", got.stderr, "quickstart: unexpected EOF\n")
}

// After the show it serves what it tells people to try, and ends cleanly.
func TestKeepsServing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pr, pw := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, nil, pw, &stderr, smallPlan())
		pw.Close()
	}()

	var screen []string
	urls := regexp.MustCompile(`curl .*'(http://[^']+)'`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for lines := bufio.NewScanner(pr); lines.Scan(); {
		line := lines.Text()
		screen = append(screen, line)
		m := urls.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		first, second := get(t, client, m[1]), get(t, client, m[1])
		switch {
		case strings.HasSuffix(line, "a hit"):
			// Who asks again at once may come before the response is stored.
			equal(t, m[1]+" "+second, second == "HIT" || second == "COLLAPSED", true)
		case strings.HasSuffix(line, "never shared"):
			equal(t, m[1], first+" "+second, "DYNAMIC DYNAMIC")
		default: // the last one
			equal(t, m[1], second, "")
			cancel()
		}
	}
	equal(t, "exit status", <-code, exitOK)
	equal(t, "stderr", stderr.String(), "")
	if len(screen) > 33 {
		t.Errorf("%d lines don't fit a screen", len(screen))
	}
	for _, line := range screen {
		if len(line) > 80 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%d columns, or not plain: %q", len(line), line)
		}
	}
}

// get returns weir's word for the answer.
func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", url, resp.Status, err)
	}
	return resp.Header.Get(trace.DefaultStatusHeader)
}

// With -json, what a person should know goes to stderr.
func TestJSONKeepsServingToo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	var stderr strings.Builder
	pr, pw := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"-json"}, &stdout, pw, smallPlan())
		pw.Close()
	}()
	for lines := bufio.NewScanner(pr); lines.Scan(); {
		stderr.WriteString(lines.Text())
		cancel()
	}
	got := ran{<-code, stdout.String(), stderr.String()}
	equal(t, "exit status", got.code, exitOK)
	equal(t, "ok", got.figures(t).OK, true)
	if !strings.Contains(got.stderr, "Still serving") {
		t.Error(got.stderr)
	}
}

func TestInterruptedShow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	equal(t, "exit status", run(ctx, []string{"-once"}, &stdout, &stderr, smallPlan()), exitOff)
	equal(t, "stderr", stderr.String(), "quickstart: interrupted before the end of the show\n")
	if strings.Contains(stdout.String(), "OFF") {
		t.Errorf("blames the figures:\n%s", stdout.String())
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"-twice"}, exitUsage, "", "quickstart: flag provided but not defined: -twice; the flags are -once and -json\n"},
		{[]string{"-once", "now"}, exitUsage, "", "quickstart: unexpected argument \"now\"; the flags are -once and -json\n"},
		{[]string{"-once=maybe"}, exitUsage, "", "quickstart: invalid boolean value \"maybe\" for -once: parse error; the flags are -once and -json\n"},
		{[]string{"-h"}, exitOK, usage, ""},
	}
	for _, tt := range tests {
		got := runOnce(t, smallPlan(), tt.args...)
		equal(t, "exit status", got.code, tt.code)
		equal(t, "stdout", got.stdout, tt.stdout)
		equal(t, "stderr", got.stderr, tt.stderr)
	}
}
