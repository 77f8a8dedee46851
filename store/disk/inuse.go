package disk

import "sync"

// inUse counts the files that somebody reads, by their nonces: deleting such a file
// frees nothing until the last reader has closed it. Its lock comes after the index's.
type inUse struct {
	mu    sync.Mutex
	files map[uint64]*usedFile
	bytes int64 // of all of them
	held  int64 // of those that have no name any more
}

type usedFile struct {
	users int
	bytes int64
	gone  bool // it has no name any more
}

// begin notes a reader of a file with so many bytes on the disk.
func (u *inUse) begin(nonce uint64, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.files == nil {
		u.files = make(map[uint64]*usedFile)
	}
	f := u.files[nonce]
	if f == nil {
		f = &usedFile{bytes: bytes}
		u.files[nonce] = f
		u.bytes += bytes
	}
	f.users++
}

// end says that a reader has closed the file.
func (u *inUse) end(nonce uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.files[nonce]
	if f.users--; f.users > 0 {
		return
	}
	delete(u.files, nonce)
	u.bytes -= f.bytes
	if f.gone {
		u.held -= f.bytes
	}
}

// unnamed says that the file, which has so many bytes, has lost its name.
func (u *inUse) unnamed(nonce uint64, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f := u.files[nonce]; f != nil && !f.gone {
		u.bytes += bytes - f.bytes // new fields make it longer
		f.bytes, f.gone = bytes, true
		u.held += bytes
	}
}

// has reports whether somebody reads the file.
func (u *inUse) has(nonce uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.files[nonce] != nil
}

// counts returns the bytes of all files being read, and of those without a name.
func (u *inUse) counts() (bytes, held int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes, u.held
}
