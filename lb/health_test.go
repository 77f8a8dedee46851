package lb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

const (
	up, ejected, open, sick, cold = StateHealthy, StateEjected, StateCircuitOpen, StateUnhealthy, StateWarmingUp
)

func TestStateNames(t *testing.T) {
	var names []string
	for s := range lastState + 1 {
		names = append(names, s.String())
	}
	assert.Equal(t, []string{
		"healthy", "disabled", "in maintenance", "drained (zero weight)", "unhealthy",
		"ejected", "circuit open", "warming up", "at capacity", "unknown",
	}, names)
}

func TestOriginIsEjectedAfterFailuresInARow(t *testing.T) {
	w := newWard(t, healthConfig{}, 3)
	w.failTimes(1, 4)
	assert.Equal(t, []State{up, up, up}, w.states())
	w.ask(1, noOutcome)
	assert.Equal(t, []State{up, up, up}, w.states(), "a visitor that went away is no failure")
	w.ask(1, succeeded)
	w.failTimes(1, 4)
	assert.Equal(t, []State{up, up, up}, w.states(), "a success interrupts the row")
	w.ask(1, failed)
	assert.Equal(t, []State{up, ejected, up}, w.states())
	assert.Equal(t, ejected, w.ask(1, failed))
	assert.Equal(t, []string{`level=WARN msg="origin ejected" pool=main origin=1 reason="5 requests in a row failed" for=30s`}, w.logs.take())
	assert.Equal(t, "5 requests in a row failed", w.conds[1].trouble())
	assert.Empty(t, w.conds[0].trouble())

	w.time += 30*time.Second - 1
	assert.Equal(t, []State{up, ejected, up}, w.states())
	w.time++
	assert.Equal(t, []State{up, up, up}, w.states())
}

// Counters that survive an ejection make the next one follow at once.
func TestReturnedOriginIsJudgedByFreshFailures(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{Failures: 3}}, 3)
	before, _ := w.conds[0].begin(w.time)
	w.failTimes(0, 3)
	require.Equal(t, []State{ejected, up, up}, w.states())
	w.time += 30 * time.Second
	for range 5 {
		w.conds[0].report(before, outcome{kind: failed}, w.time)
	}
	w.failTimes(0, 2)
	assert.Equal(t, []State{up, up, up}, w.states())
	w.ask(0, failed)
	assert.Equal(t, []State{ejected, up, up}, w.states())
	w.time += 60*time.Second - 1
	assert.Equal(t, []State{ejected, up, up}, w.states(), "the second time is twice as long")
}

// A success of before the ejection must not hide failures after it.
func TestLateSuccessDoesNotInterruptANewRow(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{Failures: 3}}, 3)
	before, _ := w.conds[0].begin(w.time)
	w.failTimes(0, 3)
	w.time += 30 * time.Second
	w.failTimes(0, 2)
	w.conds[0].report(before, outcome{kind: succeeded}, w.time)
	w.ask(0, failed)
	assert.Equal(t, []State{ejected, up, up}, w.states())
}

func TestOriginIsEjectedByItsErrorRate(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{Failures: -1}}, 2)
	w.ask(0, failed)
	for range 9 {
		w.ask(0, succeeded)
		w.ask(0, failed)
	}
	assert.Equal(t, []State{up, up}, w.states(), "19 requests are too few")
	w.ask(0, succeeded)
	w.ask(0, succeeded)
	w.ask(0, failed)
	assert.Equal(t, []State{ejected, up}, w.states())
	assert.Equal(t, []string{`level=WARN msg="origin ejected" pool=main origin=0 reason="11 of 22 requests failed" for=30s`}, w.logs.take())

	w = newWard(t, healthConfig{}, 2)
	for range 1000 {
		w.ask(0, failed)
		w.ask(0, succeeded)
		w.ask(0, succeeded)
		w.time += 10 * time.Millisecond
	}
	assert.Equal(t, []State{up, up}, w.states(), "a third isn't half")
}

func TestLastOriginIsNeverEjected(t *testing.T) {
	w := newWard(t, healthConfig{}, 1)
	w.failTimes(0, 100)
	assert.Equal(t, []State{up}, w.states())

	w = newWard(t, healthConfig{}, 3)
	w.beds[1].inRotation, w.beds[2].inRotation = false, false
	w.refresh()
	w.failTimes(0, 100)
	assert.Equal(t, []State{up, up, up}, w.states(), "what is in maintenance can't stand in")

	w = newWard(t, healthConfig{ejection: Ejection{MaxPercent: 100}}, 2)
	w.failTimes(0, 5)
	w.failTimes(1, 100)
	assert.Equal(t, []State{ejected, up}, w.states())
	assert.Len(t, w.logs.take(), 1)
}

func TestNoMoreThanTheShareIsEjected(t *testing.T) {
	w := newWard(t, healthConfig{}, 4)
	for i := range 3 {
		w.failTimes(i, 5)
	}
	assert.Equal(t, []State{ejected, ejected, up, up}, w.states())
	w.time += 29 * time.Second
	w.failTimes(2, 5)
	assert.Equal(t, []State{ejected, ejected, up, up}, w.states())
	w.time += time.Second
	w.failTimes(2, 1)
	assert.Equal(t, []State{up, up, ejected, up}, w.states(), "there is room again")
}

// When all fail alike, ejecting some would only load the others more.
func TestNothingIsEjectedWhenAllFail(t *testing.T) {
	w := newWard(t, healthConfig{}, 4)
	for range 1000 {
		for i := range w.conds {
			w.ask(i, failed)
		}
		w.time += 10 * time.Millisecond
	}
	assert.Equal(t, []State{up, up, up, up}, w.states())
	for range 1000 {
		for i := range 3 {
			w.ask(i, failed)
		}
		w.ask(3, succeeded)
		w.time += 10 * time.Millisecond
	}
	assert.Equal(t, []State{ejected, ejected, up, up}, w.states(), "one does better, so the share is ejected")
}

func TestRetryAfterSetsAsideForABoundedTime(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{MaxRetryAfter: time.Minute}}, 3)
	busy := func(i int, aside time.Duration) {
		token, _ := w.conds[i].begin(w.time)
		w.conds[i].report(token, w.outcome(503, aside, nil, false), w.time)
	}
	busy(0, 5*time.Second)
	assert.Equal(t, []State{ejected, up, up}, w.states())
	assert.Equal(t, []string{`level=WARN msg="origin ejected" pool=main origin=0 reason="it answered 503 with Retry-After" for=5s`}, w.logs.take())
	busy(1, time.Second)
	busy(2, time.Second)
	assert.Equal(t, []State{ejected, up, up}, w.states(), "the share holds for it too")
	w.time += 5 * time.Second
	assert.Equal(t, []State{up, up, up}, w.states())
	busy(0, 1<<62)
	w.time += time.Minute - 1
	assert.Equal(t, []State{ejected, up, up}, w.states())
	w.time++
	assert.Equal(t, []State{up, up, up}, w.states())
	w.failTimes(0, 5)
	w.time += 30 * time.Second
	assert.Equal(t, []State{up, up, up}, w.states(), "being busy is no failing: the first ejection is the shortest")
}

// The time for which an origin asked to be left alone makes no failures good.
func TestTimeSetAsideIsNoTimeWell(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{MaxRetryAfter: time.Hour}}, 3)
	w.failTimes(0, 5)
	w.time += 30 * time.Second
	token, _ := w.conds[0].begin(w.time)
	w.conds[0].report(token, outcome{failed, time.Hour}, w.time)
	w.time += time.Hour
	w.logs.take()
	w.failTimes(0, 5)
	assert.Equal(t, []string{`level=WARN msg="origin ejected" pool=main origin=0 reason="5 requests in a row failed" for=1m0s`}, w.logs.take())
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{Off: true}, breaker: Breaker{Failures: 3}}, 1)
	closedEra, _ := w.conds[0].begin(w.time)
	w.failTimes(0, 3)
	assert.Equal(t, open, w.ask(0, succeeded), "even for the last origin")
	w.time += 10 * time.Second
	assert.Equal(t, []State{up}, w.states())
	assert.Equal(t, 1, w.share(0))
	probe, s := w.conds[0].begin(w.time)
	assert.Equal(t, up, s)
	_, s = w.conds[0].begin(w.time)
	assert.Equal(t, open, s, "one probe at a time")
	assert.Equal(t, []State{open}, w.states())
	for range 10 {
		w.conds[0].report(closedEra, outcome{kind: succeeded}, w.time)
		w.conds[0].report(closedEra, outcome{kind: failed}, w.time)
	}
	assert.Equal(t, []State{open}, w.states(), "late reports change nothing")
	w.conds[0].report(probe, outcome{}, w.time)
	assert.Equal(t, []State{up}, w.states(), "its slot is free again")
	w.ask(0, succeeded)
	assert.Equal(t, 1, w.share(0))
	w.ask(0, succeeded)
	assert.Equal(t, 16, w.share(0))
	assert.Equal(t, []string{
		`level=WARN msg="origin's circuit open" pool=main origin=0 reason="3 requests in a row failed" for=10s`,
		`level=INFO msg="origin's circuit closed" pool=main origin=0 reason="probes succeeded"`,
	}, w.logs.take())
	w.conds[0].report(probe, outcome{kind: failed}, w.time)
	w.failTimes(0, 2)
	assert.Equal(t, []State{up}, w.states())
	w.ask(0, failed)
	assert.Equal(t, []State{open}, w.states())
	w.time += 10 * time.Second
	w.ask(0, failed)
	assert.Equal(t, []State{open}, w.states())
	assert.Equal(t, `level=WARN msg="origin's circuit open" pool=main origin=0 reason="a probe failed" for=10s`, w.logs.take()[1])
}

// The circuit may close between looking at it and asking for a probe.
func TestProbeOfACircuitThatJustClosedIsAnOrdinaryRequest(t *testing.T) {
	w := newWard(t, healthConfig{breaker: Breaker{Failures: 3}}, 1)
	ordinary, _ := w.conds[0].begin(w.time)
	token, s := w.beginProbe(w.conds[0], w.time)
	assert.Equal(t, up, s)
	assert.Equal(t, ordinary, token)
}

func TestBreakerIsTheSecondStepWhereNothingMayBeEjected(t *testing.T) {
	w := newWard(t, healthConfig{breaker: Breaker{Failures: 10}}, 2)
	w.failTimes(0, 50)
	w.failTimes(1, 9)
	assert.Equal(t, []State{ejected, up}, w.states())
	w.failTimes(1, 1)
	assert.Equal(t, []State{ejected, open}, w.states())
}

// An origin that is only being probed can't take another one's load.
func TestNothingIsEjectedInFavourOfAHalfOpenCircuit(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{Failures: -1, Requests: 4}, breaker: Breaker{Failures: 3}}, 2)
	w.failTimes(1, 3)
	w.time += 10 * time.Second
	w.ask(1, succeeded)
	assert.Equal(t, []State{up, up}, w.states())
	w.ask(0, failed)
	w.ask(0, succeeded)
	w.failTimes(0, 2)
	assert.Equal(t, []State{up, up}, w.states())
	w.ask(1, succeeded)
	w.time += 100 * time.Millisecond
	w.failTimes(0, 1)
	assert.Equal(t, []State{ejected, up}, w.states(), "its circuit is closed now")
}

func TestSwitchedOffEjectionLeavesTheBreaker(t *testing.T) {
	w := newWard(t, healthConfig{ejection: Ejection{Off: true, MaxRetryAfter: time.Minute}, breaker: Breaker{Failures: 9}}, 2)
	token, _ := w.conds[0].begin(w.time)
	w.conds[0].report(token, w.outcome(503, time.Minute, nil, false), w.time)
	w.failTimes(0, 7)
	assert.Equal(t, []State{up, up}, w.states())
	w.failTimes(0, 1)
	assert.Equal(t, []State{open, up}, w.states())
	w.cfg.breaker.Failures = 10
	w.refresh()
	assert.Equal(t, []State{up, up}, w.states(), "new settings begin anew")
	w.failTimes(0, 9)
	assert.Equal(t, []State{up, up}, w.states())
	w.failTimes(0, 1)
	assert.Equal(t, []State{open, up}, w.states())
	w.cfg.breaker = Breaker{}
	w.refresh()
	assert.Equal(t, []State{up, up}, w.states())
}

func TestSlowStartFollowsAnEjectionAndAnAddition(t *testing.T) {
	w := newWard(t, healthConfig{slowStart: 16 * time.Second}, 3)
	assert.Equal(t, 16, w.share(0), "not at the start of the pool")
	w.failTimes(0, 5)
	w.time += 30 * time.Second
	assert.Equal(t, 1, w.share(0))
	w.time += 8 * time.Second
	assert.Equal(t, 8, w.share(0))
	w.time += 8 * time.Second
	assert.Equal(t, 16, w.share(0))

	w.beds = append(w.beds, member{id: "new", inRotation: true})
	w.beds[1].inRotation = false
	w.refresh()
	assert.Equal(t, []int{16, 16, 16, 1}, []int{w.share(0), w.share(1), w.share(2), w.share(3)})
	w.beds[1].inRotation = true
	w.refresh()
	assert.Equal(t, 1, w.share(1), "back from maintenance")
}

func TestUpdateKeepsWhatIsKnown(t *testing.T) {
	w := newWard(t, healthConfig{}, 3)
	w.failTimes(0, 4)
	w.failTimes(1, 5)
	gone, _ := w.conds[2].begin(w.time)
	goneCond := w.conds[2]
	w.beds = w.beds[:2]
	w.beds = append(w.beds, member{id: "new", inRotation: true})
	w.beds[0], w.beds[1] = w.beds[1], w.beds[0]
	w.refresh()
	assert.Equal(t, []State{ejected, up, up}, w.states())
	goneCond.report(gone, outcome{kind: failed}, w.time)
	w.time += 30 * time.Second
	w.failTimes(1, 1)
	assert.Equal(t, []State{up, ejected, up}, w.states(), "four failures were known")

	w.cfg.ejection.Off = true
	w.refresh()
	assert.Equal(t, []State{up, up, up}, w.states(), "ejections end when they are switched off")
}

func TestRemovedOriginChangesNothing(t *testing.T) {
	w := newWard(t, healthConfig{}, 2)
	removed := w.conds[1]
	w.beds = w.beds[:1]
	w.refresh()
	for range 100 {
		token, _ := removed.begin(w.time)
		removed.report(token, outcome{kind: failed}, w.time)
	}
	assert.False(t, w.checked(removed, "refused", w.time))
	assert.Empty(t, w.logs.take())
}

func TestRecoveryByChecksForgetsEjectionAndCircuit(t *testing.T) {
	w := newWard(t, healthConfig{breaker: Breaker{Failures: 4}, check: HealthCheck{Path: "/"}}, 3)
	w.failTimes(0, 5)
	require.Equal(t, []State{open, up, up}, w.states())
	for range 3 {
		w.checked(w.conds[0], "status 500", w.time)
	}
	assert.Equal(t, []State{sick, up, up}, w.states())
	w.checked(w.conds[0], "", w.time)
	assert.Equal(t, []State{sick, up, up}, w.states())
	w.checked(w.conds[0], "", w.time)
	assert.Equal(t, []State{up, up, up}, w.states())
	assert.Equal(t, []string{
		`level=WARN msg="origin's circuit open" pool=main origin=0 reason="4 requests in a row failed" for=10s`,
		`level=WARN msg="origin unhealthy" pool=main origin=0 reason="status 500"`,
		`level=INFO msg="origin healthy" pool=main origin=0 reason="its health checks pass"`,
	}, w.logs.take())
}

func TestStateAndSuccessCostNoAllocation(t *testing.T) {
	w := newWard(t, healthConfig{slowStart: time.Minute}, 3)
	c := w.conds[0]
	testnet.Allocs(t, 0, func() {
		c.state(w.time)
		token, _ := c.begin(w.time)
		c.report(token, outcome{kind: succeeded}, w.time)
	})
	w.failTimes(0, 5)
	w.time += 31 * time.Second
	require.Less(t, w.share(0), 16)
	testnet.Allocs(t, 0, func() {
		c.state(w.time)
		token, _ := c.begin(w.time)
		c.report(token, outcome{kind: failed}, w.time)
		c.report(token, outcome{kind: succeeded}, w.time)
	}, "nor does a single failure")
}
