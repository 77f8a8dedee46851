package middleware

import (
	"sync"
	"time"
)

// watchdog calls one function after a time, unless it's set again or stopped.
// The zero value is stopped. Safe for concurrent use.
type watchdog struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// set replaces what is to be called. It has no effect after kill.
func (d *watchdog) set(after time.Duration, call func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer = time.AfterFunc(after, call)
}

// stop takes back what was set. The call may be under way already.
func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

// kill is stop for good.
func (d *watchdog) kill() {
	d.stop()
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
}
