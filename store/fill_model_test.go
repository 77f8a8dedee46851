package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errBrokenOff = errors.New("the origin broke off")

// program is a random run: some fills that share a budget, each with a writer
// and readers of its own.
type program struct {
	t      *testing.T
	rnd    *rand.Rand
	mu     sync.Mutex // for rnd
	data   []byte
	budget Budget
	cut    int
	// spilled counts the bodies that ended on a disk.
	spilled int
}

func (p *program) intn(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rnd.IntN(n)
}

// oneOf picks one of the values.
func oneOf[T any](p *program, v ...T) T { return v[p.intn(len(v))] }

func (p *program) pause(scale time.Duration) {
	if d := time.Duration(p.intn(4)) * scale; d > 0 {
		time.Sleep(d)
	}
}

// script is what one fill's writer does.
type script struct {
	f        *Fill
	size     int // what it writes
	declared int64
	forgo    int // after so many bytes, or -1
	breakAt  int // after so many bytes, or -1
	take     bool
	disk     *fakeDisk // nil if there's none
	pace     time.Duration
}

func (p *program) script() *script {
	s := &script{size: oneOf(p, 0, 1, 511, 512, 513, 4000, 64<<10, 64<<10+1, 100_000, 300_000, 700_000), forgo: -1, breakAt: -1}
	s.declared = oneOf(p, -1, -1, int64(s.size), int64(s.size), int64(s.size+p.intn(100)), int64(s.size-p.intn(100)))
	s.declared = max(s.declared, -1)
	if p.intn(3) == 0 {
		s.forgo = p.intn(s.size + 1)
	}
	if p.intn(3) == 0 {
		s.breakAt = p.intn(s.size + 1)
	}
	s.take = p.intn(4) > 0
	s.pace = oneOf(p, 0, 0, time.Millisecond, time.Second)
	s.f = newFill(&p.budget, s.declared, oneOf[int64](p, 1<<20, 1<<20, 200_000, 1000))
	if p.intn(2) == 0 {
		s.disk = &fakeDisk{max: oneOf[int64](p, 2<<20, 2<<20, 400_000), failAfter: -1}
		if p.intn(3) == 0 {
			s.disk.failAfter = p.intn(s.size + 1)
		}
		s.f.spillTo(s.disk)
	}
	return s
}

// write runs the script and returns how the body ended.
func (p *program) write(s *script) error {
	f, sent := s.f, 0
	for sent < s.size {
		if s.forgo >= 0 && sent >= s.forgo {
			f.Forgo()
		}
		if s.breakAt >= 0 && sent >= s.breakAt {
			f.Fail(errBrokenOff)
			return errBrokenOff
		}
		n := min(1+p.intn(oneOf(p, 10, 5000, 200_000)), s.size-sent)
		if err := f.Append(p.t.Context(), p.data[sent:sent+n]); err != nil {
			if !errors.Is(err, ErrLong) || s.declared < 0 || int64(sent+n) <= s.declared {
				p.t.Errorf("Append: %v", err)
			}
			f.Fail(err)
			return err
		}
		sent += n
		f.check(p.t)
		p.pause(s.pace)
	}
	whole := s.declared < 0 || int64(sent) == s.declared
	if s.take {
		kept, _ := f.Kept()
		if f.Spilled() && kept {
			p.mu.Lock()
			p.spilled++
			p.mu.Unlock()
			p.commit(s, whole, sent)
			return p.endOf(f, whole)
		}
		body, ok := f.Take()
		if ok != (kept && whole) {
			p.t.Errorf("Take says %v; kept %v, whole %v", ok, kept, whole)
		}
		if ok && !bytes.Equal(body, p.data[:sent]) {
			p.t.Errorf("Take returned other bytes than were written")
		}
		f.check(p.t)
		p.pause(s.pace)
	}
	return p.endOf(f, whole)
}

func (p *program) endOf(f *Fill, whole bool) error {
	err := f.End()
	if whole != (err == nil) {
		p.t.Errorf("End: %v; whole %v", err, whole)
	}
	return err
}

// commit keeps a spilled body.
func (p *program) commit(s *script, whole bool, sent int) {
	o := &Object{Status: 200}
	r := s.f.commit(o, func(put func(*Object) Rejection) (Rejection, <-chan struct{}) { return put(o), nil })
	s.f.check(p.t)
	switch {
	case !whole && r != Incomplete, whole && r != Kept && s.disk.failAfter < 0:
		p.t.Errorf("commit says %v; whole %v", r, whole)
	case r == Kept && !bytes.Equal(s.disk.kept, p.data[:sent]):
		p.t.Errorf("the disk has other bytes than were written")
	}
	p.pause(s.pace)
}

// read follows the fill in some way and tests what it got against the end that
// the writer reports.
func (p *program) read(s *script, r *Reader, offset int, end func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := -1
	switch p.intn(5) {
	case 0:
		stop = p.intn(s.size + 1) // leaves in the middle
	case 1:
		d := time.Duration(p.intn(20)) * time.Second
		time.AfterFunc(d, func() { cancel(errBrokenOff) })
	}
	pace := oneOf(p, 0, 0, time.Millisecond, 100*time.Millisecond, 5*time.Second, 30*time.Second)
	defer r.Close() // again, or because it leaves
	at := offset
	for {
		piece, err := r.Next(ctx)
		s.f.check(p.t)
		if err == nil {
			if len(piece) == 0 || at+len(piece) > s.size || !bytes.Equal(piece, p.data[at:at+len(piece)]) {
				p.t.Errorf("reader from %d: wrong bytes at %d", offset, at)
				return
			}
			p.pause(pace)
			if !bytes.Equal(piece, p.data[at:at+len(piece)]) {
				p.t.Errorf("the bytes changed while they were read")
			}
			at += len(piece)
			if stop >= 0 && at >= stop {
				return
			}
			continue
		}
		r.Close() // the writer may be waiting for it
		switch how := end(); {
		case errors.Is(err, ErrLagging):
			p.mu.Lock()
			p.cut++
			p.mu.Unlock()
		case ctx.Err() != nil && errors.Is(err, errBrokenOff):
		case how == nil:
			if err.Error() != "EOF" || at < s.size && at >= offset && offset <= s.size {
				p.t.Errorf("reader from %d stopped at %d of %d: %v", offset, at, s.size, err)
			}
		case !errors.Is(err, how):
			p.t.Errorf("the body ended with %v, a reader with %v", how, err)
		}
		return
	}
}

// run lets one fill live, with readers that come at different times.
func (p *program) run() {
	s := p.script()
	ended := make(chan struct{})
	var how error
	var wg sync.WaitGroup
	end := func() error { <-ended; return how }
	pin, _ := s.f.Reader(0)
	for range p.intn(8) {
		r, ok := s.f.Reader(0)
		if !ok {
			p.t.Errorf("no reader from the start although one is there")
			continue
		}
		wg.Go(func() { p.read(s, r, 0, end) })
	}
	pin.Close()
	wg.Go(func() { how = p.write(s); close(ended) })
	for range p.intn(6) {
		late := oneOf(p, 0, time.Millisecond, time.Second, time.Minute)
		offset := oneOf(p, 0, p.intn(s.size+1), s.size, s.size+7)
		wg.Go(func() {
			time.Sleep(late)
			if r, ok := s.f.Reader(int64(offset)); ok {
				p.read(s, r, offset, end)
			}
		})
	}
	wg.Wait()
	s.f.check(p.t)
	if s.disk != nil && s.disk.open.Load() != 0 {
		p.t.Errorf("%d spools are left open", s.disk.open.Load())
	}
}

// Whatever readers and writers do: each reader gets exactly the bytes or an
// error, the fill's books are right at every step, no one waits for ever, and
// in the end the budget is whole again.
func TestFillPrograms(t *testing.T) {
	data := content(1 << 20)
	cut, spilled := 0, 0
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &program{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), data: data}
				p.budget.max = oneOf[int64](p, 0, 40_000, 400_000, 1<<20, 64<<20)
				var wg sync.WaitGroup
				for range 1 + p.intn(4) {
					wg.Go(p.run)
				}
				wg.Wait()
				if used := p.budget.used.Load(); used != 0 || len(p.budget.queue) != 0 {
					t.Errorf("%d bytes of the budget are lost; %d wait", used, len(p.budget.queue))
				}
				cut += p.cut
				spilled += p.spilled
			})
		})
		if t.Failed() {
			break
		}
	}
	if spilled == 0 {
		t.Error("no program spilled a body: they don't reach that code")
	}
	if cut == 0 {
		t.Error("no program cut a laggard off: they don't reach that code")
	}
}
