package disk

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirhttp/weir/store"
)

// Defaults of [Options].
const (
	DefaultMaxBytes       = 10 << 30
	DefaultMaxObjects     = 256 << 10
	DefaultMaxObjectBytes = 512 << 20
	DefaultMaxOpenFiles   = 256
	DefaultScanRate       = 20_000
)

// minBytes is the least a disk tier can do something useful with.
const minBytes = 1 << 20

// Sync says what is forced out to the disk, and when. A crash of the process
// never loses or damages what is stored; this is about the machine's.
type Sync uint8

const (
	// SyncNever leaves it to the system. After a power failure the objects of
	// the last seconds may be missing or damaged, which the checksums find out,
	// and those deleted in the last seconds may be back.
	SyncNever Sync = iota
	// SyncFile forces a file out before it gets its name.
	SyncFile
	// SyncName forces out the name too, and that it is no more.
	SyncName
)

// Options configure a [Tier]. Only Dir is needed.
type Options struct {
	// Dir is the directory, which is made if need be and belongs to this tier
	// of this process alone while it's open. Put nothing else into it.
	Dir string
	// MaxBytes bounds what the files occupy, in whole pages of 4 KiB, those
	// being written included, and those that have been deleted but are still being
	// sent to somebody. A file being sent isn't evicted, which would free nothing:
	// when slow readers hold so much that there's no room, nothing more is stored
	// until some have ended. 0 means DefaultMaxBytes (10 GiB); at least 1 MiB.
	// While the index is being rebuilt it isn't known how much there is, so
	// that the bound may be passed for that time.
	MaxBytes int64
	// MaxObjects bounds the number of files, and with it the index's memory of
	// about 150 bytes for each. 0 means DefaultMaxObjects (262,144); at least
	// 16, at most 2^31.
	MaxObjects int
	// MaxObjectBytes is the largest body. 0 means DefaultMaxObjectBytes (512
	// MiB), or half of MaxBytes if that is less; never more than that half.
	MaxObjectBytes int64
	// MaxVariants bounds the variants of one primary key; the oldest go first.
	// 0 means store.DefaultMaxVariants (64); at most 4096.
	MaxVariants int
	// MaxOpenFiles bounds the files kept open between requests. More may be
	// open while more different objects than that are being sent, and then up to a
	// quarter of the bound beside them. 0 means
	// DefaultMaxOpenFiles (256); at least 8.
	MaxOpenFiles int
	// Sync says what is forced out to the disk; the zero value is SyncNever.
	Sync Sync
	// ScanRate is the number of files that the scan after Open looks at in a
	// second. 0 means DefaultScanRate (20,000); negative means no bound.
	ScanRate int
	// Logger gets one line for each fault. Nil means slog.Default().
	Logger *slog.Logger
}

func (o *Options) resolve() error {
	var errs []error
	bad := func(field string, value any, reason string) {
		errs = append(errs, &store.ConfigError{Field: "disk." + field, Value: value, Reason: reason})
	}
	or(&o.MaxBytes, DefaultMaxBytes)
	or(&o.MaxObjects, DefaultMaxObjects)
	or(&o.MaxObjectBytes, min(DefaultMaxObjectBytes, max(o.MaxBytes, minBytes)/2))
	or(&o.MaxVariants, store.DefaultMaxVariants)
	or(&o.MaxOpenFiles, DefaultMaxOpenFiles)
	or(&o.ScanRate, DefaultScanRate)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Dir == "" {
		bad("Dir", o.Dir, "must name a directory")
	}
	if o.MaxBytes < minBytes {
		bad("MaxBytes", o.MaxBytes, "must be at least 1048576 bytes; leave it 0 for 10 GiB")
	} else if o.MaxObjectBytes > o.MaxBytes/2 {
		bad("MaxObjectBytes", o.MaxObjectBytes, fmt.Sprintf("must not exceed half of MaxBytes (%d)", o.MaxBytes))
	}
	if o.MaxObjectBytes < 0 {
		bad("MaxObjectBytes", o.MaxObjectBytes, "must be at least 1 byte; leave it 0 for 512 MiB")
	}
	if o.MaxObjects < 16 || int64(o.MaxObjects) > 1<<31 {
		bad("MaxObjects", o.MaxObjects, "must be between 16 and 2147483648; leave it 0 for 262144")
	}
	if o.MaxVariants < 1 || o.MaxVariants > 4096 {
		bad("MaxVariants", o.MaxVariants, "must be between 1 and 4096; leave it 0 for 64")
	}
	if o.MaxOpenFiles < 8 {
		bad("MaxOpenFiles", o.MaxOpenFiles, "must be at least 8; leave it 0 for 256")
	}
	if o.Sync > SyncName {
		bad("Sync", o.Sync, "must be SyncNever, SyncFile or SyncName")
	}
	return errors.Join(errs...)
}

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
