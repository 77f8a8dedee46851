package main

import (
	"context"
	"fmt"
	"strings"
)

// coldFigures are those of many visitors at once on a page that isn't cached.
type coldFigures struct {
	verdict
	Visitors       int            `json:"visitors"`
	Renders        int            `json:"renders"`
	Millis         millis         `json:"ms"` // until the last visitor had the page
	RendersWithout int            `json:"renders_without_weir"`
	MillisWithout  millis         `json:"ms_without_weir"`
	Statuses       map[string]int `json:"statuses"`
}

// showCold sends the crowd to the plain proxy first, then to weir.
func (s *stage) showCold(ctx context.Context) *coldFigures {
	f := &coldFigures{verdict: newVerdict(), Visitors: s.herd}
	without, err := s.crowd(ctx, s.herd, s.plainURL+newsPage)
	f.mustWork(err)
	f.RendersWithout = s.origin.rendered(newsPage)
	f.MillisWithout = inMillis(slowest(without))

	with, err := s.crowd(ctx, s.herd, s.weirURL+newsPage)
	f.mustWork(err)
	f.Renders = s.origin.rendered(newsPage) - f.RendersWithout
	f.Millis = inMillis(slowest(with))
	f.Statuses = statuses(with)
	f.judge(with)
	return f
}

func (f *coldFigures) judge(with []visit) {
	f.must(f.RendersWithout == f.Visitors, "%s without weir instead of %d", count(f.RendersWithout, "render"), f.Visitors)
	f.must(f.Renders == 1, "%s with weir instead of 1", count(f.Renders, "render"))
	f.must(samePage(with), "the visitors didn't all get the same page")
}

func (f *coldFigures) String() string {
	return f.show(fmt.Sprintf("%d visitors at once on a page that isn't cached yet", f.Visitors),
		fmt.Sprintf("without weir  %4d %-7s at the origin, all served after %s",
			f.RendersWithout, plural(f.RendersWithout, "render"), f.MillisWithout),
		fmt.Sprintf("with weir     %4d %-7s at the origin, all served after %s",
			f.Renders, plural(f.Renders, "render"), f.Millis))
}

// samePage reports whether all visitors have the same page.
func samePage(visits []visit) bool {
	for i := range visits {
		if visits[i].body == "" || visits[i].body != visits[0].body {
			return false
		}
	}
	return true
}

// count is a number with its noun.
func count(n int, noun string) string {
	return fmt.Sprintf("%d %s", n, plural(n, noun))
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return strings.TrimSuffix(noun, "s") + "s"
}
