package disk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/store"
)

// Tier keeps objects in a directory. It implements [store.SpoolTier]. Safe for
// concurrent use.
type Tier struct {
	o       Options
	files   *files
	index   *index
	handles *handles
	reads   gate
	writes  gate

	// families are the locks under which it's decided what a primary key leads
	// to. They come before the locks of files.
	families [256]sync.Mutex

	scanned  atomic.Bool // the index has every file of this version
	listed   atomic.Bool // and there are no others
	scanDone chan struct{}
	closed   atomic.Bool
	claimed  atomic.Bool

	undeleted undeleted
	odd       odd

	stop  context.CancelFunc // ends the scan, and what deletes later
	ended chan struct{}      // closed when they have ended

	hits, misses, puts, corrupt, unknown, withoutFiles atomic.Int64

	rejections [len(store.TierStats{}.Rejections)]atomic.Int64
}

var _ store.SpoolTier = (*Tier)(nil)

// Open opens the directory, or makes it, and returns at once: the index is
// rebuilt in the background. The error joins a *store.ConfigError for each
// wrong option, is a *LockedError if somebody else uses the directory, or is
// the system's.
func Open(o Options) (*Tier, error) {
	return open(o, nil)
}

func open(o Options, fault func(op, path string) error) (*Tier, error) {
	if err := o.resolve(); err != nil {
		return nil, err
	}
	f, err := newFiles(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("disk: open the cache directory: %w", err)
	}
	f.fault = fault
	now := time.Now()
	t := &Tier{
		o: o, files: f,
		index:  newIndex(o.MaxBytes, o.MaxObjects),
		reads:  gate{what: "read", dir: f.dir, log: o.Logger, start: now},
		writes: gate{what: "write", dir: f.dir, log: o.Logger, start: now},

		undeleted: undeleted{max: maxUndeleted, again: make(chan struct{}, 1)},
		scanDone:  make(chan struct{}), ended: make(chan struct{}),
	}
	t.handles = newHandles(o.MaxOpenFiles, &t.index.read)
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	go func() {
		defer close(t.ended)
		t.scan(ctx)
		close(t.scanDone)
		t.deleteLater(ctx)
	}()
	return t, nil
}

// Get implements [store.Tier]. For a primary key whose responses vary it
// returns a record, which a [store.Store] takes for an index. The object's
// first block has been checked when its file was opened.
func (t *Tier) Get(k store.Key) (*store.Object, bool) {
	o, ok := t.Peek(k)
	if !ok {
		t.misses.Add(1)
		return nil, false
	}
	t.index.use(&k)
	if o.Primary != k {
		t.index.use(&o.Primary)
	}
	t.hits.Add(1)
	return o, true
}

// Peek implements [store.SpoolTier].
func (t *Tier) Peek(k store.Key) (*store.Object, bool) {
	h, err := t.find(&k)
	if err != nil {
		return nil, false
	}
	defer t.handles.put(h)
	if !t.belongs(h) {
		return nil, false
	}
	return h.object, true
}

// Put implements [store.Tier]. A response that varies joins the others of its
// primary key; one that doesn't replaces them. For an object that came from
// this tier, with new fields, only those are written.
func (t *Tier) Put(o *store.Object) store.Rejection {
	if c, ok := o.Content.(*content); ok && c.t == t {
		return t.count(t.freshen(o, c))
	}
	if r := t.refuse(o, o.BodySize()); r != store.Kept {
		return t.count(r)
	}
	w, r := t.create()
	if r != store.Kept {
		return t.count(r)
	}
	defer func() { _ = w.Close() }()
	var err error
	if o.Content == nil {
		_, err = w.Write(o.Body)
	} else {
		err = copyContent(w, o.Content)
	}
	if err != nil && w.failed == nil {
		return t.count(store.Gone) // of another tier, and it can't read it
	}
	return w.Commit(o)
}

func copyContent(w *Writer, c store.Content) error {
	f, err := c.Open()
	if err != nil {
		return err
	}
	_, err = store.CopySection(w, f, 0, c.Size(), nil)
	return errors.Join(err, f.Close())
}

// Has implements [store.SpoolTier].
func (t *Tier) Has(k store.Key) bool { return !t.lacks(&k) }

// Delete implements [store.Tier]. With a primary key's record go its variants.
func (t *Tier) Delete(k store.Key) bool {
	mu := t.family(&k)
	mu.Lock()
	defer mu.Unlock()
	r, _ := t.recordOf(&k) // without it nobody finds the variants either
	was := t.remove(&k)
	if was && t.o.Sync == SyncName {
		if err := t.files.syncFolder(t.files.folder(&k)); err != nil {
			t.undeleted.tell(k)
			t.writeFailed(err)
		}
	}
	if r != nil {
		t.removeAll(r.Variants)
	}
	return was
}

// Undeleted implements [store.SpoolTier].
func (t *Tier) Undeleted() (primaries []store.Key, all bool) { return t.undeleted.take() }

// DeleteObject implements [store.SpoolTier]. An object in memory counts as the
// one kept if it was fetched and received at the same instants; so does whatever can't
// be looked at just now, for it would be found again a moment later; unless the index
// says that it has another body.
func (t *Tier) DeleteObject(o *store.Object) bool {
	before, known := t.index.look(&o.Key)
	if c, ok := o.Content.(*content); ok && c.t == t && known && before.nonce != c.nonce {
		return false
	}
	h, err := t.find(&o.Key)
	if err != nil {
		if !known {
			return t.removeUnless(&o.Key, func(_ version, now bool) bool { return now })
		}
		return t.removeUnless(&o.Key, func(v version, now bool) bool { return !now || v != before })
	}
	same := h.record == nil && h.object.RequestedAt.Equal(o.RequestedAt) &&
		h.object.Life.ReceivedAt.Equal(o.Life.ReceivedAt)
	if c, ok := o.Content.(*content); ok && c.nonce != h.nonce {
		same = false
	}
	nonce, seq := h.nonce, h.seq
	t.handles.put(h)
	if !same {
		return false
	}
	return t.removeUnless(&o.Key, func(v version, now bool) bool { return !now || v.nonce != nonce || v.seq != seq })
}

// Claim implements [store.SpoolTier].
func (t *Tier) Claim() bool { return !t.closed.Load() && !t.claimed.Swap(true) }

// MaxObject implements [store.SpoolTier].
func (t *Tier) MaxObject() int64 { return t.o.MaxObjectBytes }

// Stats implements [store.Tier]. Objects and Bytes grow while the index is
// being rebuilt.
func (t *Tier) Stats() store.TierStats {
	s := store.TierStats{
		MaxBytes:       t.o.MaxBytes,
		Hits:           t.hits.Load(),
		Misses:         t.misses.Load(),
		Puts:           t.puts.Load(),
		Corrupt:        t.corrupt.Load(),
		UnknownVersion: t.unknown.Load(),
		SwitchedOff:    t.reads.episodes.Load() + t.writes.episodes.Load(),
		OutOfFiles:     t.withoutFiles.Load(),
	}
	s.Objects, s.Bytes, s.Evictions = t.index.counts()
	for r := range s.Rejections {
		s.Rejections[r] = t.rejections[r].Load()
	}
	return s
}

// WaitScan waits until the index has been rebuilt. Nothing needs it to serve.
func (t *Tier) WaitScan(ctx context.Context) error {
	select {
	case <-t.scanDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements [store.Tier]: it ends the scan, closes the files and gives
// up the directory. Files being read stay open until their readers close them.
func (t *Tier) Close(ctx context.Context) error {
	if t.closed.Swap(true) {
		return nil
	}
	t.stop()
	var err error
	select {
	case <-t.ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.handles.close()
	return errors.Join(err, t.files.close())
}

func (t *Tier) count(r store.Rejection) store.Rejection {
	if r != store.Kept {
		t.rejections[r].Add(1)
	}
	return r
}
