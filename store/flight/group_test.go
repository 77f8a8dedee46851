package flight

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func digest(n int) [32]byte { return sha256.Sum256(binary.AppendVarint(nil, int64(n))) }

func named(primary int) Key { return Key{Primary: digest(primary)} }

var t0 = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// The situations in which a claim finds a flight.
func TestClaim(t *testing.T) {
	const lane Lane = 1
	k := named(1)
	tests := map[string]struct {
		before func(g *Group[int], f *Flight[int])
		key    Key
		lane   Lane
		want   Role
	}{
		"under way":                   {func(*Group[int], *Flight[int]) {}, k, lane, Waiter},
		"another lane waits too":      {func(*Group[int], *Flight[int]) {}, k, 2, Waiter},
		"another variant":             {func(*Group[int], *Flight[int]) {}, Key{k.Primary, digest(2)}, lane, Leader},
		"another key":                 {func(*Group[int], *Flight[int]) {}, named(2), lane, Leader},
		"shared":                      {func(_ *Group[int], f *Flight[int]) { f.Decide(Shared, 1, nil) }, k, lane, Waiter},
		"released":                    {func(_ *Group[int], f *Flight[int]) { f.Decide(Released, 1, nil) }, k, lane, Leader},
		"closed":                      {func(_ *Group[int], f *Flight[int]) { f.CloseToWaiters() }, k, lane, Leader},
		"finished":                    {func(_ *Group[int], f *Flight[int]) { f.Finish(1) }, k, lane, Leader},
		"shared, finished":            {func(_ *Group[int], f *Flight[int]) { f.Decide(Shared, 1, nil); f.Finish(2) }, k, lane, Leader},
		"purged":                      {func(g *Group[int], _ *Flight[int]) { g.Forget(k.Primary) }, k, lane, Leader},
		"another key purged":          {func(g *Group[int], _ *Flight[int]) { g.Forget(digest(2)) }, k, lane, Waiter},
		"remembered":                  {func(g *Group[int], _ *Flight[int]) { g.Remember(k, lane, t0.Add(1)) }, k, lane, Alone},
		"remembered until now":        {func(g *Group[int], _ *Flight[int]) { g.Remember(k, lane, t0) }, k, lane, Waiter},
		"remembered for another lane": {func(g *Group[int], _ *Flight[int]) { g.Remember(k, 2, t0.Add(1)) }, k, lane, Waiter},
		"remembered and taken back": {func(g *Group[int], _ *Flight[int]) {
			g.Remember(k, lane, t0.Add(1))
			g.Unremember(k, lane)
		}, k, lane, Waiter},
		"left, the response unknown":  {func(_ *Group[int], f *Flight[int]) { f.Leave(false) }, k, lane, Waiter},
		"left, the response storable": {func(_ *Group[int], f *Flight[int]) { f.SetKeep(KeepStorable); f.Leave(false) }, k, lane, Waiter},
		"left, nobody wants it":       {func(_ *Group[int], f *Flight[int]) { f.SetKeep(KeepNot); f.Leave(false) }, k, lane, Leader},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var g Group[int]
			f, role := g.Claim(k, lane, t0)
			require.Equal(t, Leader, role)
			assert.Equal(t, k, f.Key())
			assert.Equal(t, lane, f.Lane())
			tt.before(&g, f)
			again, role := g.Claim(tt.key, tt.lane, t0)
			assert.Equal(t, tt.want, role)
			assert.Equal(t, role == Waiter, again == f)
			assert.Equal(t, role == Alone, again == nil)
			if role == Leader {
				more, role := g.Claim(tt.key, tt.lane, t0)
				assert.Equal(t, Waiter, role)
				assert.Same(t, again, more)
				again.Finish(0)
			}
			f.Finish(0)
			assert.Zero(t, g.Flights())
		})
	}
}

// A thousand requests at once make one leader, and all get its value at once.
func TestOneLeaderForAThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string]
		start := make(chan struct{})
		roles := make(chan Role, 1000)
		for range cap(roles) {
			go func() {
				<-start
				f, role := g.Claim(named(1), 0, time.Now())
				if role == Leader {
					time.Sleep(time.Second)
					f.Decide(Shared, "value", nil)
				}
				<-f.Decided()
				v, value := f.Result()
				assert.Equal(t, Shared, v)
				assert.Equal(t, "value", value)
				f.Arrive()
				f.Leave(true)
				if role == Leader {
					f.Finish("")
				}
				roles <- role
			}()
		}
		synctest.Wait()
		began := time.Now()
		close(start)
		count := map[Role]int{}
		for range cap(roles) {
			count[<-roles]++
		}
		assert.Equal(t, map[Role]int{Leader: 1, Waiter: 999}, count)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, g.Flights())
	})
}

// Whoever waits follows its own deadline and leaves the others unhurt.
func TestWaiterLeavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		leader, _ := g.Claim(named(1), 0, time.Now())
		cancelled := make(chan error, 1)
		leader.OnAbandon(func(cause error) { cancelled <- cause })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		f, role := g.Claim(named(1), 0, time.Now())
		require.Equal(t, Waiter, role)
		go func() { time.Sleep(10 * time.Second); leader.Decide(Shared, 7, nil) }()
		select {
		case <-f.Decided():
			t.Error("decided too early")
		case <-ctx.Done():
			f.Leave(false)
		}
		<-leader.Decided()
		assert.Empty(t, cancelled)
		assert.Equal(t, 1, leader.Attached())
		leader.SetKeep(KeepNot)
		assert.Empty(t, cancelled, "the leader is still there")
		leader.Leave(false)
		assert.ErrorIs(t, <-cancelled, ErrAbandoned)
		leader.Finish(0)
	})
}

func TestAbandoned(t *testing.T) {
	for name, tt := range map[string]struct {
		keep Keep
		do   func(f *Flight[int])
		want bool
	}{
		"unknown":                 {KeepUnknown, func(f *Flight[int]) { f.Leave(false) }, false},
		"storable":                {KeepStorable, func(f *Flight[int]) { f.Leave(false) }, false},
		"not storable":            {KeepNot, func(f *Flight[int]) { f.Leave(false) }, true},
		"found out later":         {KeepUnknown, func(f *Flight[int]) { f.Leave(false); f.SetKeep(KeepNot) }, true},
		"still attached":          {KeepNot, func(*Flight[int]) {}, false},
		"finished before":         {KeepNot, func(f *Flight[int]) { f.Finish(0); f.Leave(false) }, false},
		"no longer storable":      {KeepStorable, func(f *Flight[int]) { f.Leave(false); f.SetKeep(KeepNot) }, true},
		"a waiter is still there": {KeepNot, func(f *Flight[int]) { f.g.Claim(f.key, 0, t0); f.Leave(false) }, false},
	} {
		for _, late := range []bool{false, true} {
			var g Group[int]
			f, _ := g.Claim(named(1), 0, t0)
			calls := 0
			cancel := func(error) { calls++ }
			if !late {
				f.OnAbandon(cancel)
			}
			f.SetKeep(tt.keep)
			tt.do(f)
			if late {
				f.OnAbandon(cancel)
			}
			want := 0
			if tt.want {
				want = 1
			}
			assert.Equal(t, want, calls, "%s, cancel set late: %v", name, late)
		}
	}
}

// The beginning of the body must stay until everyone has a reader or has left.
func TestAllArrived(t *testing.T) {
	for name, tt := range map[string]struct {
		waiters int
		do      func(f *Flight[int])
		want    bool
	}{
		"only the leader":            {0, func(f *Flight[int]) { f.Arrive() }, true},
		"the leader leaves":          {0, func(f *Flight[int]) { f.Leave(false) }, true},
		"nobody yet":                 {2, func(*Flight[int]) {}, false},
		"one is missing":             {2, func(f *Flight[int]) { f.Arrive(); f.Leave(false) }, false},
		"all":                        {2, func(f *Flight[int]) { f.Arrive(); f.Leave(false); f.Arrive(); f.Leave(true) }, true},
		"leaving after Arrive":       {1, func(f *Flight[int]) { f.Arrive(); f.Leave(true) }, false},
		"one who joined meanwhile":   {0, func(f *Flight[int]) { f.g.Claim(f.key, 0, t0); f.Arrive() }, false},
		"that one leaves":            {0, func(f *Flight[int]) { f.g.Claim(f.key, 0, t0); f.Arrive(); f.Leave(false) }, true},
		"more come after all arrive": {0, func(f *Flight[int]) { f.Arrive(); f.g.Claim(f.key, 0, t0); f.Arrive() }, true},
	} {
		var g Group[int]
		f, _ := g.Claim(named(1), 0, t0)
		for range tt.waiters {
			g.Claim(named(1), 0, t0)
		}
		calls := 0
		require.True(t, f.Decide(Shared, 1, func() { calls++ }))
		assert.False(t, f.Decide(Released, 2, func() { t.Error("only the first decision counts") }))
		tt.do(f)
		want := 0
		if tt.want {
			want = 1
		}
		assert.Equal(t, want, calls, name)
		v, value := f.Result()
		assert.Equal(t, Shared, v)
		assert.Equal(t, 1, value)
	}
}

func TestAllLeftBeforeTheDecision(t *testing.T) {
	var g Group[int]
	f, _ := g.Claim(named(1), 0, t0)
	f.Leave(false)
	called := false
	assert.True(t, f.Decide(Shared, 1, func() { called = true }))
	assert.True(t, called)
}

// A purge dooms whatever is under way for the key, whoever may join it or not.
func TestForgetFindsEveryFlight(t *testing.T) {
	var g Group[int]
	k := named(1)
	flights := map[string]*Flight[int]{}
	add := func(name string, variant int, do func(f *Flight[int])) {
		f, role := g.Claim(Key{k.Primary, digest(variant)}, 0, t0)
		require.Equal(t, Leader, role)
		do(f)
		flights[name] = f
	}
	add("under way", 1, func(*Flight[int]) {})
	add("shared", 2, func(f *Flight[int]) { f.Decide(Shared, 0, nil) })
	add("released", 3, func(f *Flight[int]) { f.Decide(Released, 0, nil) })
	add("one more for that key", 3, func(*Flight[int]) {})
	add("closed", 4, func(f *Flight[int]) { f.CloseToWaiters() })
	flights["alone"] = g.Solo(k, 0)
	other, _ := g.Claim(named(2), 0, t0)
	over, _ := g.Claim(Key{k.Primary, digest(5)}, 0, t0)
	over.Finish(0)

	assert.Equal(t, len(flights)+1, g.Flights())
	assert.Equal(t, len(flights), g.Forget(k.Primary))
	assert.Zero(t, g.Forget(k.Primary))
	for name, f := range flights {
		assert.True(t, f.Doomed(), name)
	}
	assert.False(t, other.Doomed())
	assert.False(t, over.Doomed())

	next, role := g.Claim(Key{k.Primary, digest(1)}, 0, t0)
	assert.Equal(t, Leader, role)
	for _, f := range flights {
		f.Finish(0) // must not take the new one away
	}
	assert.False(t, next.Doomed())
	again, role := g.Claim(Key{k.Primary, digest(1)}, 0, t0)
	assert.Equal(t, Waiter, role)
	assert.Same(t, next, again)
	assert.Equal(t, 2, g.Flights())
}

// A leader that fails lets its waiters go, each its own way.
func TestFinishReleasesWaiters(t *testing.T) {
	var g Group[int]
	f, _ := g.Claim(named(1), 0, t0)
	w, _ := g.Claim(named(1), 0, t0)
	f.Finish(5)
	<-w.Decided()
	v, value := w.Result()
	assert.Equal(t, Released, v)
	assert.Equal(t, 5, value)
	f.Leave(false)
	w.Leave(false)
	assert.Zero(t, f.Attached())
}

// raises notes what a fetch was raised to.
type raises []uint8

func (r *raises) Raise(level uint8) { *r = append(*r, level) }

// A fetch hears of those who are more urgent than it is, whether they came before it
// could be raised or after, and of nobody else.
func TestRaise(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []uint8
		want          raises
	}{
		"nobody":               {nil, nil, nil},
		"no more urgent":       {[]uint8{0, 1}, []uint8{1, 0}, nil},
		"the most urgent":      {[]uint8{1, 3, 2}, nil, raises{3}},
		"each who comes later": {nil, []uint8{2, 1, 3, 2}, raises{2, 3, 2}},
		"both":                 {[]uint8{2}, []uint8{2, 1}, raises{2, 2}},
	} {
		var g Group[int]
		f, _ := g.Claim(named(1), 0, t0)
		for _, level := range c.before {
			f.Raise(level)
		}
		var got raises
		f.OnRaise(1, &got)
		for _, level := range c.after {
			f.Raise(level)
		}
		assert.Equal(t, c.want, got, name)
		f.Finish(0)
	}
}
