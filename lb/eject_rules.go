package lb

import (
	"fmt"
	"time"
)

// window counts the requests of a span of time that begins with a failure. So a
// success only has to be counted for all time, and only failures look at the clock.
type window struct {
	from     time.Duration
	before   uint64 // successes of all time when it began
	failures uint64 // 0: there is none
}

// fail notes a failure. passed are the successes of all time.
func (w *window) fail(now time.Duration, passed uint64, length time.Duration) {
	if w.failures == 0 || now-w.from >= length {
		*w = window{from: now, before: passed}
	}
	w.failures++
}

// over reports whether the failures are rate percent or more of at least volume
// requests.
func (w window) over(passed uint64, rate, volume int) bool {
	all := passed - w.before + w.failures
	return w.failures > 0 && all >= uint64(volume) && w.failures*100 >= uint64(rate)*all
}

// record is what an origin's requests have told so far.
type record struct {
	streak uint32 // requests that failed in a row
	window window
	passed uint64 // successes of all time
}

// failing reports whether an origin is to be ejected. divisor lowers the numbers
// that are needed, when it is asked whether another origin does any better.
func (e Ejection) failing(r record, now time.Duration, divisor int) bool {
	return e.streaky(r, divisor) || e.Rate > 0 && now-r.window.from < e.Window &&
		r.window.over(r.passed, e.Rate, (e.Requests+divisor-1)/divisor)
}

func (e Ejection) streaky(r record, divisor int) bool {
	return e.Failures > 0 && r.streak >= uint32((e.Failures+divisor-1)/divisor)
}

// why says in words what failing found.
func (e Ejection) why(r record) string {
	if e.streaky(r, 1) {
		return fmt.Sprintf("%d requests in a row failed", r.streak)
	}
	return fmt.Sprintf("%d of %d requests failed", r.window.failures, r.passed-r.window.before+r.window.failures)
}

// mayEject decides whether one more of a pool of all origins may be ejected, of
// which out are out already. better says that another eligible one isn't failing.
func (e Ejection) mayEject(all, out int, better bool) bool {
	return better && out+1 <= max(1, all*e.MaxPercent/100)
}

// ejections is how often an origin was ejected of late.
type ejections struct {
	count int           // those that haven't been made good
	until time.Duration // end of the last one
}

// next begins an ejection and returns when it ends.
func (j *ejections) next(now time.Duration, e Ejection) time.Duration {
	if j.count > 0 && now > j.until {
		j.count -= int(min(int64(j.count), int64((now-j.until)/e.Duration)))
	}
	// Beyond that many it doesn't get longer, and must not take longer to make good.
	j.count = min(j.count+1, int((e.MaxDuration+e.Duration-1)/e.Duration))
	j.until = now + min(time.Duration(j.count)*e.Duration, e.MaxDuration)
	return j.until
}
