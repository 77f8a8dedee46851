package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhttp/weir/trace"
)

// streamFigures are those of visitors who read a page that's being made.
type streamFigures struct {
	verdict
	Visitors  int            `json:"visitors"`
	Chunks    int            `json:"chunks"`
	Gap       millis         `json:"chunk_gap_ms"`
	Renders   int            `json:"renders"`
	FirstByte millis         `json:"leader_first_byte_ms"`
	Spread    millis         `json:"first_byte_spread_ms"` // how far anyone's first byte was from the leader's
	Bound     millis         `json:"first_byte_spread_bound_ms"`
	Reading   millis         `json:"reading_ms"` // from first byte to last, of whoever had least
	Statuses  map[string]int `json:"statuses"`
}

func (s *stage) showStream(ctx context.Context) *streamFigures {
	f := &streamFigures{
		verdict: newVerdict(), Visitors: s.readers, Chunks: s.chunks,
		Gap: inMillis(s.gap), Bound: inMillis(s.near),
	}
	visits, err := s.crowd(ctx, s.readers, s.weirURL+reportPage)
	f.mustWork(err)
	f.Renders = s.origin.rendered(reportPage)
	f.measure(visits)
	f.judge(visits)
	return f
}

func (f *streamFigures) measure(visits []visit) {
	first := leader(visits).firstByte
	var spread time.Duration
	reading := visits[0].done - visits[0].firstByte
	for i := range visits {
		spread = max(spread, (visits[i].firstByte - first).Abs())
		reading = min(reading, visits[i].done-visits[i].firstByte)
	}
	f.FirstByte, f.Spread, f.Reading = inMillis(first), inMillis(spread), inMillis(reading)
	f.Statuses = statuses(visits)
}

// leader is the visitor whose request went to the origin, or else the one who
// was served first.
func leader(visits []visit) *visit {
	lead := &visits[0]
	for i := range visits {
		if visits[i].status == trace.Miss.String() {
			return &visits[i]
		}
		if visits[i].firstByte < lead.firstByte {
			lead = &visits[i]
		}
	}
	return lead
}

func (f *streamFigures) judge(visits []visit) {
	f.must(f.Renders == 1, "%s instead of 1", count(f.Renders, "render"))
	f.must(f.Spread <= f.Bound, "a first byte %s from the leader's, more than %s", f.Spread, f.Bound)
	// Who got all of it at its end didn't read along, however slow the machine.
	streamed := f.Gap * millis(f.Chunks-1)
	f.must(f.Reading >= streamed/2, "only %s from a visitor's first byte to the last, of %s", f.Reading, streamed)
	f.must(samePage(visits), "the visitors didn't all get the same page")
}

func (f *streamFigures) String() string {
	return f.show(
		fmt.Sprintf("%d visitors on a page that the origin streams, %d pieces %s apart", f.Visitors, f.Chunks, f.Gap),
		fmt.Sprintf("%s; the first byte reached the visitor who led after %s,", count(f.Renders, "render"), f.FirstByte),
		fmt.Sprintf("and everyone within %s of that; then they read along for %s", f.Spread, f.Reading))
}
