package disk

import (
	"sync"

	"github.com/weirhttp/weir/store"
)

// entry is what memory knows of a file: 64 bytes, and the map's share.
type entry struct {
	key        store.Key
	bytes      int64 // of the disk
	nonce      uint64
	seq        uint32
	prev, next uint32
	list       uint8 // free, probation or protected
	kind       uint8
}

const (
	free = iota
	probation
	protected
)

// chunk is the number of entries allocated at once: the index grows without
// ever copying what it has.
const chunk = 4096

// segment is a doubly linked list of entries by number; 0 is none.
type segment struct {
	head, tail uint32
	bytes      int64
	entries    int
}

// index is the segmented LRU of all files, bounded by bytes and by number. New
// ones are on probation, those used again are protected, up to four fifths of
// either bound; evicted is from probation first. Every operation takes constant
// time and does no I/O.
type index struct {
	maxBytes, maxProtected int64
	maxEntries             int

	mu       sync.Mutex
	byKey    map[store.Key]uint32
	chunks   [][]entry
	used     uint32 // numbers given out so far; number 0 is never
	lists    [3]segment
	reserved int64 // bytes of files being written
	leaving  int   // keys forgotten whose files are yet to be deleted
	evicted  int64
}

func newIndex(maxBytes int64, maxEntries int) *index {
	return &index{maxBytes: maxBytes, maxProtected: maxBytes / 5 * 4, maxEntries: maxEntries,
		byKey: make(map[store.Key]uint32)}
}

// version tells what a key's file is.
type version struct {
	nonce uint64
	seq   uint32
	kind  uint8
	bytes int64
}

func (h *head) version(size int64) version {
	return version{h.nonce, h.seq, h.kind, onDisk(size)}
}

// onDisk is what a file of the size is counted with.
func onDisk(size int64) int64 { return (size + 4095) &^ 4095 }

func (x *index) at(i uint32) *entry { return &x.chunks[i/chunk][i%chunk] }

func (e *entry) version() version { return version{e.nonce, e.seq, e.kind, e.bytes} }

// use returns what the key's file is and counts as a use.
func (x *index) use(k *store.Key) (version, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok := x.byKey[*k]
	if !ok {
		return version{}, false
	}
	e := x.at(i)
	x.unlink(i)
	x.push(i, protected)
	for p := &x.lists[protected]; p.bytes > x.maxProtected || p.entries > x.maxEntries/5*4; {
		last := x.lists[protected].tail
		x.unlink(last)
		x.push(last, probation)
	}
	return e.version(), true
}

func (x *index) look(k *store.Key) (version, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, ok := x.byKey[*k]; ok {
		return x.at(i).version(), true
	}
	return version{}, false
}

// set notes what the key's file is now. If release isn't 0, so many bytes were
// reserved for it.
func (x *index) set(k *store.Key, v version, release int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reserved -= release
	if i, ok := x.byKey[*k]; ok {
		e := x.at(i)
		x.lists[e.list].bytes += v.bytes - e.bytes
		e.nonce, e.seq, e.kind, e.bytes = v.nonce, v.seq, v.kind, v.bytes
		return
	}
	x.add(k, v)
}

// note adds a file that was found, unless the key is known.
func (x *index) note(k *store.Key, v version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.byKey[*k]; !ok {
		x.add(k, v)
	}
}

func (x *index) add(k *store.Key, v version) {
	i := x.lists[free].head
	if i != 0 {
		x.unlink(i)
	} else {
		x.used++
		i = x.used
		if int(i/chunk) == len(x.chunks) {
			x.chunks = append(x.chunks, make([]entry, chunk))
		}
	}
	e := x.at(i)
	*e = entry{key: *k, bytes: v.bytes, nonce: v.nonce, seq: v.seq, kind: v.kind}
	x.push(i, probation)
	x.byKey[*k] = i
}

// remove forgets the key and reports whether it was known.
func (x *index) remove(k *store.Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok := x.byKey[*k]
	if ok {
		x.drop(i)
	}
	return ok
}

// reserve takes n bytes for a file being written. If there's no room it
// forgets the file to be evicted next and returns its key: delete that and
// ask again. Neither means that too much is being written already: that may
// take three quarters of all.
func (x *index) reserve(n int64) (ok bool, victim store.Key, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reserved+n > x.maxBytes/4*3 {
		return false, victim, false
	}
	if x.bytes()+x.reserved+n <= x.maxBytes {
		x.reserved += n
		return true, victim, false
	}
	victim, found = x.evict()
	return false, victim, found
}

func (x *index) release(n int64) {
	x.mu.Lock()
	x.reserved -= n
	x.mu.Unlock()
}

// excess forgets the file to be evicted next if there are too many or too
// large ones, and returns its key.
func (x *index) excess() (victim store.Key, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.byKey) <= x.maxEntries && x.bytes()+x.reserved <= x.maxBytes {
		return victim, false
	}
	return x.evict()
}

// shed forgets the file to be evicted next, whatever room there is.
func (x *index) shed() (victim store.Key, bytes int64, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.bytes()
	victim, found = x.evict()
	return victim, before - x.bytes(), found
}

func (x *index) evict() (store.Key, bool) {
	i := x.lists[probation].tail
	if i == 0 {
		i = x.lists[protected].tail
	}
	if i == 0 {
		return store.Key{}, false
	}
	k := x.at(i).key
	x.drop(i)
	x.evicted++
	x.leaving++
	return k, true
}

// left says that the file of a key that was to be evicted has been dealt with.
func (x *index) left() {
	x.mu.Lock()
	x.leaving--
	x.mu.Unlock()
}

// lacks reports whether the key has no file, provided that the index has had them all.
func (x *index) lacks(k *store.Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, known := x.byKey[*k]
	return !known && x.leaving == 0
}

func (x *index) drop(i uint32) {
	e := x.at(i)
	delete(x.byKey, e.key)
	x.unlink(i)
	e.bytes = 0
	x.push(i, free)
}

func (x *index) bytes() int64 { return x.lists[probation].bytes + x.lists[protected].bytes }

func (x *index) counts() (entries, bytes, evicted int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return int64(len(x.byKey)), x.bytes() + x.reserved, x.evicted
}

func (x *index) push(i uint32, to uint8) {
	e, l := x.at(i), &x.lists[to]
	e.list, e.prev, e.next = to, 0, l.head
	if l.head != 0 {
		x.at(l.head).prev = i
	} else {
		l.tail = i
	}
	l.head = i
	l.bytes += e.bytes
	l.entries++
}

func (x *index) unlink(i uint32) {
	e := x.at(i)
	l := &x.lists[e.list]
	if e.prev != 0 {
		x.at(e.prev).next = e.next
	} else {
		l.head = e.next
	}
	if e.next != 0 {
		x.at(e.next).prev = e.prev
	} else {
		l.tail = e.prev
	}
	l.bytes -= e.bytes
	l.entries--
}
