package store

import "strconv"

// Keep stores o with the body that f has, or says why not; then nothing that
// is stored changes, and f's readers go on. o has no Body yet. A body in memory is
// taken as by [Fill.Take] and put as by [Store.Put]; one that was spilled
// becomes the disk's, and o stays without a Body. The writer calls it when it
// has appended everything, before End, so that the response is stored by the
// time readers see its end. It blocks while the disk is written
// to; if that doesn't come back from giving the body its name within a second, it goes on
// as if the body weren't kept, though it may be yet. allowed is as in
// [Store.PutIf].
func (s *Store) Keep(f *Fill, o *Object, allowed func(there *Object) bool) Rejection {
	size, _ := f.Progress()
	o.Length = strconv.FormatInt(size, 10)
	if f.Spilled() {
		return f.commit(o, func(put func(*Object) Rejection) (Rejection, <-chan struct{}) {
			family := s.family(&o.Primary)
			family.mu.Lock()
			if allowed != nil && !allowed(s.replacedBy(family, o)) {
				family.mu.Unlock()
				return Withdrawn, nil
			}
			return s.putDisk(family, o, put)
		})
	}
	body, ok := f.Take()
	if !ok {
		return Incomplete
	}
	o.Body = body
	return s.PutIf(o, allowed)
}

// Prepare does what takes long of Keep, for whoever will hold a lock during that. It
// changes nothing that is stored, and Keep does it if need be. The writer calls it, with
// the o that Keep will have, when it has appended everything.
func (s *Store) Prepare(f *Fill, o *Object) {
	if f.Spilled() {
		_ = f.prepare(o) // Keep fails likewise
	}
}

// Spilled reports whether the body has gone to the disk.
func (f *Fill) Spilled() bool {
	f.mu.Lock()
	defer f.unlock()
	return f.spilled()
}

// SpillFailed says why a body that was to go to the disk, or was there, isn't
// kept, or is Kept if that isn't the case.
func (f *Fill) SpillFailed() Rejection {
	f.mu.Lock()
	defer f.unlock()
	return f.spill.failed
}
