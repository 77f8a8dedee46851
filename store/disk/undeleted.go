package disk

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/store"
)

// maxUndeleted bounds the keys remembered. Beyond it no file is found any more by its
// name alone, which the index doesn't have.
const maxUndeleted = 64 << 10

// undeleted are the keys whose files could not be deleted: they must not be
// found again by their names. Only the process remembers; after a restart they
// are there again. So the caller is told of them, who keeps what must outlive the
// process.
type undeleted struct {
	max  int
	some atomic.Bool
	mu   sync.Mutex
	keys map[store.Key]struct{}
	over int // how often one found no room; 0 if they are all there

	untold    atomic.Bool // there are some
	primaries []store.Key // that the caller hasn't been told of
	all       bool        // and more than are in the list

	again chan struct{} // has room for one: try to delete them
	after atomic.Int64  // not before then, since the tier was opened
}

// hidden reports whether a file under the key's name must not be found.
func (t *Tier) hidden(k *store.Key) bool {
	if !t.undeleted.some.Load() {
		return false
	}
	_, known := t.index.look(k)
	return t.undeleted.has(k, known)
}

// add reports whether the key wasn't there before. known says that the index had it.
func (u *undeleted) add(k *store.Key, primary store.Key, known bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = make(map[store.Key]struct{})
	}
	if _, was := u.keys[*k]; was {
		return false
	}
	u.some.Store(true)
	if len(u.keys) < u.max {
		u.keys[*k] = struct{}{}
	} else {
		if u.over == 0 { // from here on it can't be told which ones were told of
			u.all = true
		} else if !known {
			return false // that was told of then
		}
		u.over++
	}
	u.tellLocked(primary)
	return true
}

// tell makes the caller hear of a primary key of which something may come back.
func (u *undeleted) tell(primary store.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tellLocked(primary)
}

func (u *undeleted) tellLocked(primary store.Key) {
	if u.all = u.all || len(u.primaries) == maxUndeleted; u.all {
		u.primaries = nil
	} else {
		u.primaries = append(u.primaries, primary)
	}
	u.untold.Store(true)
}

// take returns what the caller hasn't been told of.
func (u *undeleted) take() (primaries []store.Key, all bool) {
	if !u.untold.Load() {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	primaries, all = u.primaries, u.all
	u.primaries, u.all = nil, false
	u.untold.Store(false)
	return primaries, all
}

// has reports whether the key's file must not be found. What the index knows has been
// stored since, unless the key itself is here.
func (u *undeleted) has(k *store.Key, known bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.keys[*k]
	return ok || u.over > 0 && !known
}

// clear forgets the key: its file has been replaced, or deleted after all.
func (u *undeleted) clear(k *store.Key) {
	if !u.some.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, *k)
	u.some.Store(len(u.keys) > 0 || u.over > 0)
}

// list returns the keys, and how often one found no room.
func (u *undeleted) list() (keys []store.Key, over int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k := range u.keys {
		keys = append(keys, k)
	}
	return keys, u.over
}

// allThere says that none of those for which there was no room is left, unless there
// have been more since.
func (u *undeleted) allThere(over int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over == over {
		u.over = 0
		u.some.Store(len(u.keys) > 0)
	}
}

// retryAfter is how long a file that can't be deleted is left alone.
const retryAfter = time.Minute

// retryDeletions is called when the disk could be written to.
func (t *Tier) retryDeletions() {
	u := &t.undeleted
	if !u.some.Load() || int64(t.writes.now()) < u.after.Load() {
		return
	}
	select {
	case u.again <- struct{}{}:
	default:
	}
}
