package purge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// List holds the purges. It is safe for concurrent use. Make one with [New].
type List struct {
	opt Options

	now    atomic.Uint64 // the newest number; stored after the tables
	table  atomic.Pointer[table]
	places [tables]atomic.Pointer[places] // nil before the first of their kind is invalidated
	secret [2]uint64                      // of places

	mu      sync.Mutex
	live    map[uint64]*entry
	single  ring // those that count against MaxTombstones, oldest first
	zones   ring // whole zones
	kinds   [kindEnd]int
	closed  bool
	counts  counts
	pending *batch // records that the journal hasn't taken yet

	journal *journal // nil for none
	lost    atomic.Bool
	end     uint64        // what the journal had reached that this process read
	first   uint64        // the first number of this process
	written atomic.Uint64 // what the journal has reached now
	queues  queues
}

type counts struct{ added, merged, folded, invalidated uint64 }

// generationBits is where a number's generation begins: each process has its own,
// and 2^32 numbers in it. More of them run on into the next generation.
const (
	generationBits = 32
	maxGeneration  = 1<<32 - 1
)

// New makes a list, and reads its journal if it has one. A journal that is
// missing, damaged or can't be read is no error: whatever was stored before counts
// as purged then, one log line says so, and [List.Lost] is true. Nor is a journal that
// can't be written just now, because the disk is full, say: one log line says so, it's
// tried again and again, and should the process end before it works, the next one
// takes all for purged. The small file beside it is needed, without which the numbers
// of this process couldn't be told from those of others. All problems with o are reported at once, each a
// *[ConfigError]. A list with a journal has a goroutine until [List.Close].
func New(o Options) (*List, error) { return open(o, osDisk{}) }

func open(o Options, d disk) (*List, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	l := &List{opt: o, live: map[uint64]*entry{}, secret: newSecret()}
	l.table.Store(newTable(0))
	l.queues.init(o)
	if o.Journal == "" {
		l.lost.Store(true)
		l.begin(firstGeneration(time.Now()), loaded{})
		return l, nil
	}
	if err := l.openJournal(d); err != nil {
		return nil, fmt.Errorf("purge: journal: %w", err)
	}
	return l, nil
}

// firstGeneration is the least that a generation may be: seconds since 2024, so that
// it is above those that this process doesn't know of, because they were lost with the
// journal. Only here a clock counts.
func firstGeneration(now time.Time) uint64 {
	epoch := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	return uint64(min(max(1, now.Unix()-epoch.Unix()), maxGeneration/2))
}

// begin starts a generation. If earlier purges were lost, all before is invalid.
func (l *List) begin(generation uint64, earlier loaded) {
	first := generation << generationBits
	for _, t := range earlier.purges {
		l.note(t.sel, t.seq)
		l.makeRoom()
	}
	if l.lost.Load() {
		l.note(Selector{Kind: Everything}, first)
	}
	l.restorePlaces(earlier)
	l.counts = counts{}
	l.end, l.first = earlier.reached, first
	l.now.Store(first)
}

// restorePlaces notes earlier invalidations.
func (l *List) restorePlaces(earlier loaded) {
	for i, p := range earlier.places {
		if p != nil {
			l.secret = p.secret
		} else if len(earlier.placed[i]) > 0 {
			p = newPlaces(l.secret, fewestBits)
		}
		if p != nil {
			p.most = l.opt.mostBits
		}
		for _, v := range earlier.placed[i] {
			p = p.with(v.id, v.seq)
		}
		l.places[i].Store(p)
	}
}

// Lost reports that purges of earlier processes aren't known, so that all that was
// stored before this list was made counts as purged: the caller may as well remove
// it. It is always true without a journal, and may become true by [List.Witness].
func (l *List) Lost() bool { return l.lost.Load() }

// Result says what became of a call.
type Result struct {
	Seq     uint64 // what is matched and was fetched before this number is invalid; 0 if all was queued
	Applied int    // selectors in effect, those merged with earlier ones too
	Queued  int    // selectors that will be in effect soon; only [List.Submit] queues
	Durable bool   // what was applied is in the journal
}

// Add purges. When it returns, the purge is in effect, and durable if there is a
// journal. All selectors of a call take effect at one number. Identical purges
// merge. What is stored is never walked: it costs about a microsecond for each
// selector, then the write to the journal, which concurrent calls share.
//
// Errors: several *[SelectorError], joined, when some selectors are wrong or
// there are more than [MaxSelectors], or [ErrClosed]; nothing was purged then. Or
// [ErrNotDurable] with the cause, also when ctx ends before the write did: the purge
// is in effect.
func (l *List) Add(ctx context.Context, selectors ...Selector) (Result, error) {
	clean, err := canonicalAll(selectors)
	if err != nil || len(clean) == 0 {
		return Result{}, err
	}
	return l.add(ctx, clean)
}

func canonicalAll(selectors []Selector) ([]Selector, error) {
	if len(selectors) > MaxSelectors {
		return nil, &SelectorError{MaxSelectors, "purge",
			fmt.Sprintf("%d selectors in one call, %d are allowed: split it", len(selectors), MaxSelectors)}
	}
	var bad []error
	clean := make([]Selector, len(selectors))
	for i, s := range selectors {
		if e := s.canonical(); e != nil {
			e.Index = i
			bad = append(bad, e)
		}
		clean[i] = s
	}
	return clean, errors.Join(bad...)
}

// add purges by canonical selectors.
func (l *List) add(ctx context.Context, clean []Selector) (Result, error) {
	return l.addAll(ctx, clean, nil)
}

func (l *List) addAll(ctx context.Context, clean []Selector, set *invalidated) (Result, error) {
	seq, written, err := l.apply(clean, set)
	if err != nil {
		return Result{}, err
	}
	res := Result{Seq: seq, Applied: len(clean)}
	if set != nil {
		res.Applied += set.targets
	}
	if written == nil {
		return res, nil
	}
	if err := written.wait(ctx); err != nil {
		return res, fmt.Errorf("%w: %w", ErrNotDurable, err)
	}
	res.Durable = true
	return res, nil
}

// apply brings a purge by selectors and places into effect and returns the batch of
// the journal that it is in.
func (l *List) apply(clean []Selector, set *invalidated) (seq uint64, written *batch, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return 0, nil, ErrClosed
	}
	seq = l.now.Load() + 1
	for _, s := range clean {
		l.note(s, seq)
	}
	l.invalidate(set, seq)
	l.counts.added += uint64(len(clean))
	if l.journal != nil {
		written = l.enqueue(seq, clean, set)
	}
	l.now.Store(seq)
	l.makeRoom()
	l.mu.Unlock()
	if written != nil {
		l.journal.wake()
	}
	return seq, written, nil
}

// Close writes what the journal hasn't got and closes it; no purge is accepted
// afterwards. Queued ones are applied first. When it returns early because ctx
// ended, call it again. It may be called more than once. Check works on.
func (l *List) Close(ctx context.Context) error {
	l.flushQueues()
	// The drainer may hold purges that it took off a queue.
	if err := l.queues.stop(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if l.journal == nil {
		return nil
	}
	if first {
		close(l.journal.quit)
	}
	select {
	case <-l.journal.done:
		return l.journal.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}
