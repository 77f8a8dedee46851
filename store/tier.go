package store

import "context"

// Tier is one place that keeps objects. The memory tier is one; a disk or a
// shared tier can stand behind it. All methods are safe for concurrent use.
// Package storetest has the contract as tests.
type Tier interface {
	// Get returns the object kept under k. It counts as a use of it.
	Get(k Key) (*Object, bool)
	// Put keeps o under o.Key, replacing what was there, or says why not; then
	// what was there stays. The tier may drop any object at any time to stay
	// within its bound.
	Put(o *Object) Rejection
	// Delete forgets k and reports whether it was there.
	Delete(k Key) bool
	// Stats returns the tier's counters.
	Stats() TierStats
	// Close frees what the tier holds. Nothing may be called after it.
	Close(ctx context.Context) error
}

// Rejection is the reason why an object was not kept. The zero value means
// that it was.
type Rejection uint8

// The reasons for which a tier doesn't keep an object.
const (
	Kept        Rejection = iota
	TooLarge              // larger than the largest object any tier takes
	BadKey                // kept under its primary key although it varies, or not although it doesn't
	NoRoom                // the tier can't make room: all it has is being written
	Gone                  // its content was to be shared with an object that is no longer kept
	SwitchedOff           // the tier has switched itself off because of a fault, or failed just now
	Incomplete            // the body isn't all there
	Withdrawn             // what it belongs to was deleted while it was fetched
	OutOfFiles            // the process, or the system, could open no more files
	numRejections
)

// String returns the reason as one sentence without a full stop.
func (r Rejection) String() string {
	switch r {
	case Kept:
		return "stored"
	case TooLarge:
		return "the response is larger than the largest object that the cache keeps"
	case BadKey:
		return "the response's key contradicts its selecting header fields"
	case NoRoom:
		return "too many large responses are being stored at once"
	case Gone:
		return "the content that it shares is no longer kept"
	case Withdrawn:
		return "the key was purged while the response was fetched"
	case OutOfFiles:
		return "no more files could be opened"
	case SwitchedOff:
		return "the cache tier has switched itself off after a fault"
	case Incomplete:
		return "the response ended before it was complete"
	}
	return "unknown"
}

// TierStats are one tier's counters since it was made.
type TierStats struct {
	Objects    int64 // kept now, variants' index records included
	Bytes      int64 // their weight
	MaxBytes   int64 // the bound
	Hits       int64 // Gets that found something
	Misses     int64 // Gets that didn't
	Puts       int64 // objects taken
	Evictions  int64 // dropped to stay within the bound
	Rejections [numRejections]int64

	// Of a tier on disk:
	Corrupt        int64 // dropped because a checksum failed
	UnknownVersion int64 // files of another version's format, left alone
	SwitchedOff    int64 // faults for which it switched itself off
	OutOfFiles     int64 // operations given up because no more files could be opened; no fault of the tier
}

// Rejected returns the number of objects refused for the given reason.
func (s *TierStats) Rejected(r Rejection) int64 {
	if int(r) >= len(s.Rejections) {
		return 0
	}
	return s.Rejections[r]
}
