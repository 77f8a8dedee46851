package testnet

import (
	"context"
	"sync"
)

// Gate holds back whoever comes to it until the test opens it. Inside a bubble
// of testing/synctest, make it in the bubble.
type Gate struct {
	open, arrived   chan struct{}
	openOnce, first sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{open: make(chan struct{}), arrived: make(chan struct{})}
}

// Open lets everyone through, now and from now on. Calling it again does
// nothing.
func (g *Gate) Open() { g.openOnce.Do(func() { close(g.open) }) }

// Arrived is closed when somebody first came to the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Wait waits until the gate is open, or ctx ends and its error is returned. A
// nil gate is always open.
func (g *Gate) Wait(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.first.Do(func() { close(g.arrived) })
	select {
	case <-g.open:
		return nil
	default:
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
