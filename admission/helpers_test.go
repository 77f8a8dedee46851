package admission

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

var background = context.Background()

func TestMain(m *testing.M) { testnet.MainCheck(m) }

func newLimiter(t testing.TB, o Options) *Limiter {
	t.Helper()
	l, err := New(o)
	require.NoError(t, err)
	return l
}

func mustTry(t *testing.T, l *Limiter, r Request) Permit {
	t.Helper()
	p, d := l.TryAcquire(r)
	require.Equal(t, Decision{}, d)
	return p
}

// result is what became of a request that ran in a goroutine.
type result struct {
	name   string
	permit Permit
	d      Decision
}

// queueUp starts a request in a goroutine.
func queueUp(ctx context.Context, l *Limiter, name string, r Request, out chan<- result) {
	go func() {
		p, d := l.Acquire(ctx, r)
		out <- result{name, p, d}
	}()
}

// empty checks that nothing is left behind in l.
func empty(t *testing.T, l *Limiter) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.Zero(t, l.counts.used)
	assert.Zero(t, l.counts.classes)
	for _, r := range l.counts.routes {
		assert.Zero(t, r.used)
	}
	assert.Zero(t, l.waiters)
	for _, n := range l.lines {
		assert.Zero(t, n.waiters)
		assert.Empty(t, n.active)
		assert.Zero(t, n.crowds.most)
		assert.Len(t, n.tenants, n.idle)
		for _, q := range n.queues {
			assert.Zero(t, q.waiters)
			assert.Zero(t, q.crowds.most)
			assert.Empty(t, q.heap)
		}
	}
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(background, d)
}
