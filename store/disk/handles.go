package disk

import (
	"os"
	"sync"

	"github.com/weirhttp/weir/store"
)

// maxSpare bounds the descriptors kept for one file.
const maxSpare = 4

// handles is a bounded LRU of open files. A file that is in use isn't closed
// and doesn't count as used least. However many are in use, a few of those that were
// used last stay open beside them: one that was found is about to be opened to be sent,
// and would be opened, read and checked a second time.
type handles struct {
	max  int
	idle int // descriptors of files with no refs that stay open in any case
	read *inUse

	mu          sync.Mutex
	byKey       map[store.Key]*handle
	first, last *handle // those with no refs, most recent first
	open        int     // descriptors
	unused      int     // those of files with no refs
	closed      bool
}

func newHandles(most int, read *inUse) *handles {
	return &handles{max: most, idle: most / 4, read: read, byKey: make(map[store.Key]*handle)}
}

// get returns the key's handle for use, or nil. put gives it back.
func (c *handles) get(k *store.Key) *handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.byKey[*k]
	if h != nil {
		if h.refs == 0 {
			c.unlink(h)
			c.read.begin(h.nonce, onDisk(h.stamp.size))
		}
		h.refs++
	}
	return h
}

func (c *handles) put(h *handle) {
	c.mu.Lock()
	h.refs--
	var toClose []*os.File
	if h.refs == 0 {
		c.read.end(h.nonce)
		if h.cached {
			c.push(h)
			toClose = c.trim(nil)
		} else {
			toClose = c.take(h, nil)
		}
	}
	c.mu.Unlock()
	closeAll(toClose)
}

// add makes a new handle the key's, in use by the caller.
func (c *handles) add(h *handle) {
	h.refs, h.spare = 1, []*os.File{h.file}
	c.mu.Lock()
	c.read.begin(h.nonce, onDisk(h.stamp.size))
	c.open++
	var toClose []*os.File
	if !c.closed {
		toClose = c.forget(&h.key, nil)
		h.cached = true
		c.byKey[h.key] = h
	}
	toClose = c.trim(toClose)
	c.mu.Unlock()
	closeAll(toClose)
}

// drop makes the key have no handle. Whoever uses it may go on.
func (c *handles) drop(k *store.Key) {
	c.mu.Lock()
	toClose := c.forget(k, nil)
	c.mu.Unlock()
	closeAll(toClose)
}

// dropThis does so if the handle is the key's.
func (c *handles) dropThis(h *handle) {
	c.mu.Lock()
	var toClose []*os.File
	if c.byKey[h.key] == h {
		toClose = c.forget(&h.key, nil)
	}
	c.mu.Unlock()
	closeAll(toClose)
}

func (c *handles) forget(k *store.Key, toClose []*os.File) []*os.File {
	h := c.byKey[*k]
	if h == nil {
		return toClose
	}
	delete(c.byKey, *k)
	h.cached = false
	if h.refs == 0 {
		c.unlink(h)
		toClose = c.take(h, toClose)
	}
	return toClose
}

// trim closes the files used least until there are no more than the bound, or few
// enough that nobody uses.
func (c *handles) trim(toClose []*os.File) []*os.File {
	for c.open > c.max && c.unused > c.idle {
		toClose = c.forget(&c.last.key, toClose)
	}
	return toClose
}

// take takes h's descriptors out of the count.
func (c *handles) take(h *handle, toClose []*os.File) []*os.File {
	c.open -= len(h.spare)
	toClose = append(toClose, h.spare...)
	h.spare = nil
	return toClose
}

// lend gives the caller a descriptor of the file whose offset nobody else
// uses, or nil if there may be no more.
func (c *handles) lend(h *handle) *os.File {
	c.mu.Lock()
	if n := len(h.spare); n > 0 {
		f := h.spare[n-1]
		h.spare = h.spare[:n-1]
		c.mu.Unlock()
		return f
	}
	c.open++
	toClose := c.trim(nil)
	over := c.open > c.max
	if over {
		c.open--
	}
	c.mu.Unlock()
	closeAll(toClose)
	if over {
		return nil
	}
	f, err := reopen(h.file)
	if err != nil {
		c.mu.Lock()
		c.open--
		c.mu.Unlock()
		return nil
	}
	return f
}

// giveBack takes the descriptor back.
func (c *handles) giveBack(h *handle, f *os.File) {
	c.mu.Lock()
	if f == h.file || len(h.spare) < maxSpare {
		h.spare = append(h.spare, f)
		c.mu.Unlock()
		return
	}
	c.open--
	c.mu.Unlock()
	_ = f.Close()
}

func (c *handles) close() {
	c.mu.Lock()
	c.closed = true
	var toClose []*os.File
	for k := range c.byKey {
		toClose = c.forget(&k, toClose)
	}
	c.mu.Unlock()
	closeAll(toClose)
}

// closeAll closes what was only read from: nothing is lost by an error.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (c *handles) push(h *handle) {
	c.unused += len(h.spare)
	h.prev, h.next = nil, c.first
	if c.first != nil {
		c.first.prev = h
	} else {
		c.last = h
	}
	c.first = h
}

func (c *handles) unlink(h *handle) {
	c.unused -= len(h.spare)
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		c.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		c.last = h.prev
	}
	h.prev, h.next = nil, nil
}
