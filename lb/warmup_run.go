package lb

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// warmUp starts a warm-up in a goroutine of its own if one is due, so that the
// health checks go on. It returns after how long one will be due; 0 if that isn't
// known.
func (w *watch) warmUp(cfg *healthConfig, m member) (later time.Duration) {
	k, h := w.checker, w.checker.health
	if !cfg.warmUp.on() {
		return 0
	}
	gen, later, due := h.beginWarmUp(w.cond, h.now())
	if !due {
		return later
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.gone || k.closed {
		return 0
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.stopWarmUp = cancel
	k.wg.Go(func() {
		defer cancel()
		err := k.inTurn(ctx, func() error { return cfg.warmUp.run(ctx, m, cfg.hosts) })
		// What our own side shut down under it says nothing of the origin.
		shut := err != nil && FailureOf(err) == FailureShutdown
		again := h.endWarmUp(w.cond, gen, err, shut || ctx.Err() != nil, h.now())
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case shut && w.member.given != m.given:
			w.arm(0)
		case again > 0 && !w.checking:
			w.arm(again)
		}
	})
	return 0
}

// cancelWarmUp ends the warm-up that runs, if one does.
func (w *watch) cancelWarmUp() {
	w.checker.mu.Lock()
	defer w.checker.mu.Unlock()
	if w.stopWarmUp != nil {
		w.stopWarmUp()
	}
}

// inTurn runs f when fewer than maxWarming others run. Waiting doesn't count
// against a warm-up's timeout.
func (k *checker) inTurn(ctx context.Context, f func() error) error {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run asks an origin for all paths under all host names. The first failure ends
// it.
func (c WarmUp) run(ctx context.Context, m member, hosts []string) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if m.host != "" || len(hosts) == 0 {
		hosts = []string{m.host}
	}
	ctx, stop := context.WithCancelCause(limited)
	defer stop(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	all := len(hosts) * len(c.Paths)
	for range min(c.Concurrency, all) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= all {
					return
				}
				if err := c.one(ctx, m, hosts[i/len(c.Paths)], c.Paths[i%len(c.Paths)]); err != nil {
					stop(err)
				}
			}
		})
	}
	workers.Wait()
	if limited.Err() != nil {
		return fmt.Errorf("not done within %v", c.Timeout)
	}
	return context.Cause(ctx)
}

// one sends one request and reads the answer's body away, up to a bound.
func (c WarmUp) one(ctx context.Context, m member, host, path string) error {
	req, err := ownRequest(ctx, http.MethodGet, m.base, path, host, c.Header)
	if err != nil {
		return err
	}
	resp, err := m.send(req)
	if err != nil {
		return fmt.Errorf("%s%s: %w", host, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("%s%s: status %d", host, path, resp.StatusCode)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, warmUpBodyBytes)); err != nil {
		return fmt.Errorf("%s%s: body: %w", host, path, err)
	}
	return nil
}
