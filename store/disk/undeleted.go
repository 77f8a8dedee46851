package disk

import (
	"sync"
	"sync/atomic"

	"github.com/weirhttp/weir/store"
)

// maxUndeleted bounds the keys remembered. Beyond it nothing is found any more.
const maxUndeleted = 64 << 10

// undeleted are the keys whose files could not be deleted: they must not be
// found again by their names. Only the process remembers; after a restart they
// are there again. So the caller is told of them, who keeps what must outlive the
// process.
type undeleted struct {
	some atomic.Bool
	mu   sync.Mutex
	keys map[store.Key]struct{}

	untold    atomic.Bool // there are some
	primaries []store.Key // that the caller hasn't been told of
	all       bool        // and more than are in the list
}

// add reports whether the key wasn't there before.
func (u *undeleted) add(k *store.Key, primary store.Key) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = make(map[store.Key]struct{})
	}
	_, was := u.keys[*k]
	if len(u.keys) <= maxUndeleted {
		u.keys[*k] = struct{}{}
	}
	u.some.Store(true)
	if !was {
		u.tellLocked(primary)
	}
	return !was
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

func (u *undeleted) has(k *store.Key) bool {
	if !u.some.Load() {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.keys[*k]
	return ok || len(u.keys) > maxUndeleted
}

// clear forgets the key: its file has been replaced.
func (u *undeleted) clear(k *store.Key) {
	if !u.some.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.keys) <= maxUndeleted {
		delete(u.keys, *k)
		u.some.Store(len(u.keys) > 0)
	}
}
