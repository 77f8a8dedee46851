package purge

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// compactBytes is how far a journal grows before it is rewritten; one that is
	// larger when rewritten may double.
	compactBytes = 1 << 20
	// maxPending bounds the records that wait for a slow disk.
	maxPending = 8 << 20
	// A journal that failed is rewritten after a second, then after twice as long
	// each time, up to half a minute.
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// batch is the records that one write takes to the disk.
type batch struct {
	buf  []byte
	last uint64        // the newest number among them
	done chan struct{} // closed when err is set
	err  error
}

// wait returns when the batch is written, has failed, or ctx ends.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// journal belongs to the one goroutine that writes it, from open to close.
type journal struct {
	path string
	disk disk
	lock lockFile
	sync SyncMode

	file    file
	size    int64  // where the next record goes
	reached uint64 // the newest number in it
	bound   int64  // rewrite when larger
	least   int64  // the lowest bound

	failed  error // the file can't be added to any more
	retryAt time.Time
	backOff time.Duration

	signal   chan struct{}
	quit     chan struct{}
	done     chan struct{}
	closeErr error

	stats struct {
		bytes   atomic.Int64
		failing atomic.Bool
	}
}

func (j *journal) wake() {
	select {
	case j.signal <- struct{}{}:
	default:
	}
}

// openJournal reads what earlier processes left, begins a generation and makes it
// durable.
func (l *List) openJournal(d disk) error {
	held, err := lock(l.opt.Journal + ".lock")
	if err != nil {
		return err
	}
	was, err := readJournal(d, l.opt.Journal)
	if err == nil {
		err = held.doubt(was)
	}
	log := l.opt.Logger.With("journal", l.opt.Journal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		log.Info("purge: there is no journal yet; whatever was stored before counts as purged")
	case err != nil:
		log.Error("purge: the journal can't be trusted; whatever was stored before counts as purged", "error", err)
	case was.torn > 0:
		log.Info("purge: cut off a record that a crash has left unfinished", "bytes", was.torn)
	}
	kept, _ := held.progress()
	generation := max(max(was.generation, kept.generation)+1, firstGeneration(time.Now()))
	if err != nil {
		l.lost.Store(true)
		was = loaded{}
	}
	slices.SortStableFunc(was.purges, func(a, b tombstone) int {
		if a.seq < b.seq {
			return -1
		} else if a.seq > b.seq {
			return 1
		}
		return 0
	})
	l.begin(generation, was)
	j := &journal{
		path: l.opt.Journal, disk: d, lock: held, sync: l.opt.Sync, least: l.opt.compactAt,
		signal: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	// The generation before anything of it: should the journal be lost, it must not be
	// used again. That the journal has come so far after it has.
	if err = held.keep(progress{generation, kept.reached}, true); err == nil {
		err = l.start(j, was.reached)
	}
	if err != nil {
		return errors.Join(err, held.close())
	}
	l.journal = j
	l.written.Store(j.reached)
	go l.writeJournal(j)
	return nil
}

// start writes the journal anew. Where that fails, because the disk is full, say, the
// list begins without it: it knows what the file says, but what it purges isn't in
// there. So the lock file must say, which takes no more room than it has, that no
// journal is to be trusted that hasn't come as far as this process.
func (l *List) start(j *journal, reached uint64) error {
	err := j.rewrite(l.snapshot())
	if err == nil {
		return nil
	}
	first := l.now.Load()
	if noted := j.lock.keep(progress{first >> generationBits, first}, true); noted != nil {
		return errors.Join(err, noted)
	}
	if j.file == nil {
		j.reached = reached
	}
	l.fail(j, err)
	j.stats.failing.Store(true)
	return nil
}

func readJournal(d disk, path string) (loaded, error) {
	b, err := d.read(path)
	if err != nil {
		return loaded{}, err
	}
	return parseJournal(b)
}

// snapshot is all that a journal has to hold, and the number up to which.
type snapshot struct {
	bytes   []byte
	reached uint64
}

// snapshot renders all that is remembered. The lock is held, or nobody else has
// the list yet.
func (l *List) snapshot() *snapshot {
	now := l.now.Load()
	buf := appendGeneration(journalHeader(), now>>generationBits)
	add := func(e *entry) {
		s := [1]Selector{e.sel}
		if e.hard > 0 {
			buf = appendPurge(buf, e.hard, s[:])
		}
		if e.soft > e.hard {
			s[0].Soft = true
			buf = appendPurge(buf, e.soft, s[:])
		}
	}
	for _, e := range l.live {
		add(e)
	}
	for i := range l.places {
		if p := l.places[i].Load(); p != nil {
			buf = appendPlaces(buf, i, p)
		}
	}
	return &snapshot{appendReached(buf, now), now} // last, so that a part of it is never taken for all
}

// enqueue adds a purge to the batch that is written next. The lock is held.
func (l *List) enqueue(seq uint64, selectors []Selector, set *invalidated) *batch {
	if l.pending == nil {
		l.pending = &batch{done: make(chan struct{})}
	}
	b := l.pending
	b.last = seq
	if len(b.buf) > maxPending {
		// A rewrite holds it all, however much that was.
		return b
	}
	if len(selectors) > 0 {
		b.buf = appendPurge(b.buf, seq, selectors)
	}
	if set != nil {
		b.buf = appendPlaced(b.buf, seq, set)
	}
	return b
}

// writeJournal is the journal's goroutine.
func (l *List) writeJournal(j *journal) {
	defer close(j.done)
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	if j.failed != nil {
		retry.Reset(time.Until(j.retryAt))
	}
	for {
		select {
		case <-j.signal:
		case <-retry.C:
		case <-j.quit:
			j.retryAt = time.Time{}
			l.flush(j)
			j.closeErr = errors.Join(j.failed, j.lock.close())
			if j.file != nil {
				j.closeErr = errors.Join(j.closeErr, j.file.Close())
			}
			return
		}
		l.flush(j)
		if j.failed != nil {
			retry.Reset(time.Until(j.retryAt))
		}
	}
}

// flush writes what is pending, as records or, when the time has come, as part of
// a new file.
func (l *List) flush(j *journal) {
	l.mu.Lock()
	b := l.pending
	l.pending = nil
	size := j.size
	overrun := false
	if b != nil {
		size += int64(len(b.buf))
		overrun = len(b.buf) > maxPending
	}
	var whole *snapshot
	due := j.failed != nil && !time.Now().Before(j.retryAt)
	if due || j.failed == nil && (size > j.bound || overrun) {
		whole = l.snapshot()
	}
	l.mu.Unlock()

	err := j.failed
	switch {
	case whole != nil:
		err = l.replace(j, whole, b, overrun)
	case b != nil && err == nil:
		err = j.append(b)
	}
	if err != nil && (j.failed == nil || due) {
		l.fail(j, err)
	}
	l.written.Store(j.reached)
	j.stats.bytes.Store(j.size)
	j.stats.failing.Store(j.failed != nil)
	if b != nil {
		b.err = err
		close(b.done)
	}
}

// replace writes a new file, which a full or failed one needs.
func (l *List) replace(j *journal, whole *snapshot, b *batch, overrun bool) error {
	old := j.file
	err := j.rewrite(whole)
	switch {
	case err == nil && j.failed != nil:
		l.opt.Logger.Info("purge: the journal works again", "journal", j.path)
		j.failed = nil
	case err != nil && j.failed == nil && j.file == old && !overrun:
		// The old file is as good as before; it only grows.
		j.bound *= 2
		l.opt.Logger.Warn("purge: the journal can't be made smaller", "journal", j.path, "error", err)
		if err = nil; b != nil {
			err = j.append(b)
		}
	}
	return err
}

// fail notes that the file can't be trusted to hold the purges of now.
func (l *List) fail(j *journal, err error) {
	if j.failed == nil {
		j.backOff = retryFirst
		noted := j.markDirty()
		l.opt.Logger.Error("purge: the journal can't be written; purges stay in effect, but until it works "+
			"again they won't survive a restart other than by purging everything", "journal", j.path, "error", err, "noted", noted)
	} else {
		j.backOff = min(2*j.backOff, retryMost)
	}
	j.failed = err
	j.retryAt = time.Now().Add(j.backOff)
}

// markDirty makes the next process distrust the file, without needing any room on
// the disk, and reports whether that worked.
func (j *journal) markDirty() bool {
	if j.file == nil { // see start
		return true
	}
	_, err := j.file.WriteAt([]byte{1}, dirtyAt)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		if err = j.disk.remove(j.path); err == nil {
			err = j.disk.syncDir(j.path)
		}
	}
	return err == nil
}

func (j *journal) append(b *batch) error {
	if _, err := j.file.WriteAt(b.buf, j.size); err != nil {
		return err
	}
	if j.sync == SyncAlways {
		if err := j.file.Sync(); err != nil {
			return err
		}
	}
	j.size += int64(len(b.buf))
	return j.came(b.last)
}

// came notes that the file holds all purges up to seq.
func (j *journal) came(seq uint64) error {
	err := j.lock.keep(progress{seq >> generationBits, seq}, false)
	if err == nil {
		j.reached = seq
	}
	return err
}

// rewrite replaces the file by a new one. If it fails, the old one is still in
// place, unless the disk forgets the renaming.
func (j *journal) rewrite(whole *snapshot) error {
	temporary := j.path + ".new"
	f, err := j.disk.create(temporary)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(whole.bytes, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.disk.rename(temporary, j.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), j.disk.remove(temporary))
	}
	// From here on the old file is gone, or comes back after a power failure.
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size = f, int64(len(whole.bytes))
	j.bound = max(j.least, 2*j.size)
	if err := j.disk.syncDir(j.path); err != nil {
		return err
	}
	return j.came(whole.reached)
}
