package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhttp/weir/trace"
)

// question is a request whose answer has a certain status.
type question struct {
	page    string
	told    string // of the page, on the screen
	header  []string
	want    trace.Status
	renders int
}

func questions() []question {
	return []question{
		{page: newsPage, told: "kept since the first visitors", want: trace.Hit},
		{page: stockPage, told: "kept for longer than it's fresh", want: trace.Stale},
		{page: manualPage, told: "likewise, but to be confirmed", want: trace.Revalidated},
		{page: newsPage, told: "with the field Authorization", header: []string{"Authorization", "Bearer x"},
			want: trace.Bypass, renders: 1},
		{page: cartPage, told: "never kept", want: trace.Dynamic, renders: 1},
	}
}

// answer is what weir said, and what it cost the origin.
type answer struct {
	verdict
	Page    string `json:"page"`
	Told    string `json:"-"`
	Want    string `json:"want"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Renders int    `json:"renders"`
	Millis  millis `json:"ms"`
}

type answerFigures struct {
	verdict
	Answers []*answer `json:"answers"`
}

// age lets the cache keep the pages that are soon stale, until they are.
func (s *stage) age(ctx context.Context) error {
	for _, page := range []string{stockPage, manualPage} {
		if _, err := s.crowd(ctx, 1, s.weirURL+page); err != nil {
			return err
		}
	}
	select {
	case <-time.After(briefly + 100*time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// showAnswers asks one question after another, once the pages have aged.
func (s *stage) showAnswers(ctx context.Context, aged <-chan error) *answerFigures {
	f := &answerFigures{verdict: newVerdict()}
	f.mustWork(<-aged)
	for _, q := range questions() {
		a := s.ask(ctx, q)
		f.Answers = append(f.Answers, a)
		for _, off := range a.Off {
			f.must(false, "%s (%s): %s", q.page, q.want, off)
		}
	}
	return f
}

func (s *stage) ask(ctx context.Context, q question) *answer {
	before := s.origin.rendered(q.page)
	visits, err := s.crowd(ctx, 1, s.weirURL+q.page, q.header...)
	v := &visits[0]
	a := &answer{
		verdict: newVerdict(), Page: q.page, Told: q.told, Want: q.want.String(),
		Status: v.status, Reason: v.reason,
		Renders: s.origin.rendered(q.page) - before, Millis: inMillis(v.done),
	}
	a.mustWork(err)
	a.judge(q.renders)
	return a
}

func (a *answer) judge(renders int) {
	a.must(a.Status == a.Want, "the status is %q", a.Status)
	a.must(a.Reason != "", "there is no reason")
	a.must(a.Renders == renders, "%s instead of %d", count(a.Renders, "render"), renders)
}

func (f *answerFigures) String() string {
	var lines []string
	for _, a := range f.Answers {
		lines = append(lines,
			fmt.Sprintf("%-11s  %6s  %-9s  %s, %s", a.Status, a.Millis, count(a.Renders, "render"), a.Page, a.Told),
			fmt.Sprintf("%-11s  %s", "", a.Reason))
	}
	return f.show("What weir says of its answers: status and, below it, the reason", lines...)
}
