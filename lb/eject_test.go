package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOutcomeOfAnAttempt(t *testing.T) {
	standard := Ejection{}.withDefaults()
	asked := Ejection{MaxRetryAfter: time.Minute}.withDefaults()
	only500 := Ejection{Statuses: []int{500}}.withDefaults()
	none := Ejection{Statuses: []int{}}.withDefaults()
	for _, tt := range []struct {
		name   string
		e      Ejection
		status int
		aside  time.Duration
		err    error
		gone   bool
		want   outcome
	}{
		{"200", standard, 200, 0, nil, false, outcome{kind: succeeded}},
		{"404 is an answer", standard, 404, 0, nil, false, outcome{kind: succeeded}},
		{"429 is an answer", standard, 429, time.Minute, nil, false, outcome{kind: succeeded}},
		{"500 is the page's fault", standard, 500, 0, nil, false, outcome{kind: succeeded}},
		{"502", standard, 502, 0, nil, false, outcome{kind: failed}},
		{"503", standard, 503, 0, nil, false, outcome{kind: failed}},
		{"504", standard, 504, 0, nil, false, outcome{kind: failed}},
		{"500 if it is said to count", only500, 500, 0, nil, false, outcome{kind: failed}},
		{"then 503 doesn't", only500, 503, 0, nil, false, outcome{kind: succeeded}},
		{"no status counts", none, 502, 0, nil, false, outcome{kind: succeeded}},
		{"but errors do", none, 0, 0, io.ErrUnexpectedEOF, false, outcome{kind: failed}},
		{"a broken body", standard, 200, 0, io.ErrUnexpectedEOF, false, outcome{kind: failed}},
		{"a time-out", standard, 0, 0, context.DeadlineExceeded, false, outcome{kind: failed}},
		{"the visitor went away", standard, 0, 0, io.ErrUnexpectedEOF, true, outcome{}},
		{"the visitor went away from a 503", standard, 503, time.Minute, nil, true, outcome{}},
		{"cancelled", standard, 0, 0, fmt.Errorf("read: %w", context.Canceled), false, outcome{}},
		{"Retry-After doesn't matter as a rule", standard, 503, time.Hour, nil, false, outcome{kind: failed}},
		{"Retry-After of a 503", asked, 503, time.Hour, nil, false, outcome{failed, time.Hour}},
		{"of another status", asked, 502, time.Hour, nil, false, outcome{kind: failed}},
		{"in the past", asked, 503, -time.Hour, nil, false, outcome{kind: failed}},
		{"of an attempt that failed", asked, 503, time.Hour, errors.New("broken"), false, outcome{kind: failed}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.e.outcomeOf(tt.status, tt.aside, tt.err, tt.gone))
		})
	}
}

func TestEjectionWindowBeginsWithAFailure(t *testing.T) {
	const s = time.Second
	var w window
	assert.False(t, w.over(1000, 1, 1))
	w.fail(100*s, 1000, 10*s) // the thousand before don't count
	assert.True(t, w.over(1000, 100, 1))
	assert.False(t, w.over(1000, 50, 2), "too few")
	assert.True(t, w.over(1001, 50, 2))
	assert.False(t, w.over(1002, 50, 2))
	w.fail(110*s-1, 1002, 10*s)
	assert.Equal(t, window{100 * s, 1000, 2}, w)
	w.fail(110*s, 1010, 10*s)
	assert.Equal(t, window{110 * s, 1010, 1}, w, "a new one")
}

func TestEjectionGrowsIsCappedAndDecays(t *testing.T) {
	const s = time.Second
	e := Ejection{}.withDefaults()
	var j ejections
	now := time.Duration(0)
	var lasted []time.Duration
	eject := func(well time.Duration) {
		now += well
		until := j.next(now, e)
		lasted = append(lasted, until-now)
		now = until
	}
	for range 12 {
		eject(s)
	}
	eject(30 * s)        // makes one good
	eject(90 * s)        // three
	eject(24 * 3600 * s) // all
	eject(0)
	assert.Equal(t, []time.Duration{
		30 * s, 60 * s, 90 * s, 120 * s, 150 * s, 180 * s, 210 * s, 240 * s, 270 * s, 300 * s, 300 * s, 300 * s,
		300 * s, 240 * s, 30 * s, 60 * s,
	}, lasted)

	j = ejections{}
	e = Ejection{Duration: 7 * s, MaxDuration: 10 * s}.withDefaults()
	assert.Equal(t, 7*s, j.next(0, e))
	assert.Equal(t, 17*s, j.next(7*s, e), "the cap needn't be a multiple")
	assert.Equal(t, 2, j.count)
	e = Ejection{Duration: time.Hour}.withDefaults()
	assert.Equal(t, time.Hour, e.MaxDuration)
}

func TestEjectionNeverTakesMoreThanTheShare(t *testing.T) {
	for _, tt := range []struct {
		percent, all int
		most         int // may be out
	}{
		{50, 2, 1}, {50, 3, 1}, {50, 4, 2}, {50, 5, 2}, {50, 256, 128},
		{10, 2, 1}, {10, 19, 1}, {10, 20, 2}, {100, 3, 3}, {33, 3, 1}, {1, 99, 1},
	} {
		e := Ejection{MaxPercent: tt.percent}.withDefaults()
		for out := range tt.all {
			assert.Equal(t, out < tt.most, e.mayEject(tt.all, out, true), "%+v, %d out", tt, out)
			assert.False(t, e.mayEject(tt.all, out, false), "no other one is better")
		}
	}
}
