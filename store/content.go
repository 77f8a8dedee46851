package store

import (
	"errors"
	"io"
)

var (
	// ErrCorrupt is given for content that fails its checksum. The tier has
	// dropped the object.
	ErrCorrupt = errors.New("store: the stored content fails its checksum")
	// ErrGone is given for content that is no longer there: evicted, replaced
	// or deleted since the object was got. To whoever has sent nothing yet it
	// is a miss.
	ErrGone = errors.New("store: the stored content is no longer there")
	// ErrUnavailable is given for content that can't be opened just now, since the
	// process has no more files, for instance: it may still be there, and nothing is
	// wrong with it as far as anybody knows. It's a miss, and no reason to delete it.
	ErrUnavailable = errors.New("store: the stored content can't be opened just now")
)

// RejectedError says why a body can't be written to a tier.
type RejectedError struct {
	Reason Rejection
	Err    error // the system's, if there is one
}

func (e *RejectedError) Error() string {
	if e.Err == nil {
		return "store: " + e.Reason.String()
	}
	return "store: " + e.Reason.String() + ": " + e.Err.Error()
}

// Unwrap returns the system's error.
func (e *RejectedError) Unwrap() error { return e.Err }

// Content is a body that isn't in memory. It's as immutable as the object it
// belongs to. Safe for concurrent use.
type Content interface {
	// Size is the body's length in bytes. It costs nothing.
	Size() int64
	// Open opens the body for one reader, who closes it. It fails with ErrGone
	// if the tier doesn't keep this very body any more, and with ErrUnavailable if
	// it can't look.
	Open() (File, error)
}

// File is an open body. It belongs to one goroutine.
type File interface {
	// Section returns a reader of verified bytes that begin at offset off: at
	// least one and at most n, N says how many. Bytes not verified since the
	// tier opened the file are read and checked first, no more than about
	// 1 MiB for each call, so that the first byte of a large body doesn't wait
	// for the last. If the check fails the error is ErrCorrupt or ErrGone, the
	// object has been dropped and the response must be aborted; before the
	// response's head is out it is a miss.
	//
	// io.Copy from the reader to an http.ResponseWriter is a sendfile where
	// the connection and the system allow it. The reader is valid until the
	// next call. A copy may end early without an error if somebody cuts the
	// file meanwhile: compare the number of bytes (CopySection does).
	Section(off, n int64) (*io.LimitedReader, error)
	// Close ends the use of the file and of the last reader.
	Close() error
}

// CopySpan and CopySpanMore bound what CopySection sends in one piece: the first
// one, and those after it. A large piece costs less, and a client that has taken
// the first has shown that it takes something.
const (
	CopySpan     = 1 << 20
	CopySpanMore = 4 << 20
)

// CopySection copies n bytes of f from offset off to dst, in pieces, and returns
// how many it copied. It calls each with the length of each piece before it, if it
// isn't nil, for instance to put off a write deadline; an error from it ends
// the copying. Fewer than n bytes always come with an error.
func CopySection(dst io.Writer, f File, off, n int64, each func(piece int64) error) (int64, error) {
	var done int64
	span := int64(CopySpan)
	for ; done < n; span = CopySpanMore {
		r, err := f.Section(off+done, min(n-done, span))
		if err != nil {
			return done, err
		}
		if each != nil {
			if err := each(r.N); err != nil {
				return done, err
			}
		}
		want := r.N
		got, err := io.Copy(dst, r)
		done += got
		if err != nil {
			return done, err
		}
		if got < want {
			return done, io.ErrUnexpectedEOF
		}
	}
	return done, nil
}

// Load returns an object like o with its body in memory, verified: for one
// that is small enough and popular enough to be kept there.
func (o *Object) Load() (*Object, error) {
	if o.Content == nil {
		return o, nil
	}
	f, err := o.Content.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	body := make([]byte, o.Content.Size())
	for off := 0; off < len(body); {
		r, err := f.Section(int64(off), int64(len(body)-off))
		if err != nil {
			return nil, err
		}
		n, err := io.ReadFull(r, body[off:off+int(r.N)])
		if err != nil {
			return nil, err
		}
		off += n
	}
	return &Object{
		Key: o.Key, Primary: o.Primary, Status: o.Status,
		Header: o.Header, Trailer: o.Trailer, Body: body,
		VaryNames: o.VaryNames, Selecting: o.Selecting,
		RequestedAt: o.RequestedAt, Life: o.Life, Facts: o.Facts, Length: o.Length,
	}, nil
}

// BodySize is the length of the body, in memory or not.
func (o *Object) BodySize() int64 {
	if o.Content != nil {
		return o.Content.Size()
	}
	return int64(len(o.Body))
}

// SpoolTier is a tier to which a body can be written while it arrives.
type SpoolTier interface {
	Tier
	// Claim makes the tier its one Store's, until Close. It reports false if it's
	// another's already, or closed.
	Claim() bool
	// Create starts a body that is written in pieces. The error is a
	// *RejectedError.
	Create() (Spool, error)
	// Peek is Get, but counts neither as one nor as a use.
	Peek(k Key) (*Object, bool)
	// Has reports whether there may be anything under k, in memory and without a look
	// at the disk. If it says no, there certainly is nothing to be deleted.
	Has(k Key) bool
	// DeleteObject forgets o if it's still the one kept under its key.
	DeleteObject(o *Object) bool
	// Undeleted returns the primary keys of what could not be deleted since the last
	// call, and may be found again by another process, although this one doesn't find
	// it any more. all says that there was too much of it to tell. It may be called
	// after Close, and costs an atomic load if there is nothing.
	Undeleted() (primaries []Key, all bool)
	// MaxObject is the largest body the tier takes, in bytes.
	MaxObject() int64
}

// Spool is a body that is being written: one goroutine writes, any number
// read what has been written. It's invisible to the tier's Get until Commit.
type Spool interface {
	// Write appends p, all or nothing. The error is a *RejectedError; after it
	// the body can't be committed any more;
	// what had been written before can still be read.
	io.Writer
	// ReadAt reads what has been written so far: io.EOF means no more than
	// that. It works after Commit and Abort too, until Close.
	io.ReaderAt
	// Size is the number of bytes written so far.
	Size() int64
	// Prepare does what takes long of a Commit of o, and changes nothing that others
	// see: the caller holds no lock. Nothing may be written after it. Commit does it
	// if need be. The error is a *RejectedError, and Commit will say the same.
	Prepare(o *Object) error
	// Commit makes the body and o's fields an object of the tier, all at once,
	// or says why not. o's Body, Content and Length are not looked at.
	Commit(o *Object) Rejection
	// Abort gives the body up, unless it has been committed.
	Abort()
	// Close frees the file. Unless Commit came before, it aborts too. Nothing
	// may be called after it, nor during it.
	Close() error
}
