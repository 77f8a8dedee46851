package middleware

import (
	"sync"
	"time"
)

// watchdog calls one function after a time, unless it's set again or stopped.
// It has one timer for its whole life. The zero value is stopped. Safe for
// concurrent use.
type watchdog struct {
	mu    sync.Mutex
	timer *time.Timer
	due   time.Time
	call  func() // nil when stopped
	dead  bool
}

// set replaces what is to be called. It has no effect after kill.
func (d *watchdog) set(after time.Duration, call func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return
	}
	d.call, d.due = call, time.Now().Add(after)
	if d.timer == nil {
		d.timer = time.AfterFunc(after, d.fire)
	} else {
		d.timer.Reset(after)
	}
}

// fire is the timer's function. One that was under way when set was called
// comes too early, and the timer has been set for the right time.
func (d *watchdog) fire() {
	d.mu.Lock()
	call := d.call
	if call == nil || time.Now().Before(d.due) {
		d.mu.Unlock()
		return
	}
	d.call = nil
	d.mu.Unlock()
	call()
}

// stop takes back what was set. The call may be under way already. The timer
// goes on for nothing until it's set again or killed.
func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.call = nil
}

// kill is stop for good.
func (d *watchdog) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.call, d.dead = nil, true
	if d.timer != nil {
		d.timer.Stop()
	}
}
