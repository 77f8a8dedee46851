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
// are there again.
type undeleted struct {
	some atomic.Bool
	mu   sync.Mutex
	keys map[store.Key]struct{}
}

// add reports whether the key wasn't there before.
func (u *undeleted) add(k *store.Key) bool {
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
	return !was
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
