package purge

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// The defaults of [Options].
const (
	DefaultMaxTombstones = 4096
	DefaultRate          = 10_000
	DefaultBurst         = 20_000
	DefaultMaxQueued     = 10_000
)

// MaxSelectors is how many selectors one call may have.
const MaxSelectors = 1000

// Options configure a [List]. The zero value is a list in memory with the
// defaults.
type Options struct {
	// MaxTombstones bounds how many purges are remembered one by one. Beyond it the
	// oldest quarter becomes a floor for each of their zones: all that was fetched
	// before is purged. 0 means DefaultMaxTombstones. Purges of whole zones don't
	// count. A remembered purge costs some 400 bytes and its text.
	MaxTombstones int

	// Journal is the path of the file that makes purges survive a restart; "" for
	// none. Its directory must exist. A file beside it, with ".lock" added to the
	// name, keeps other processes out and says how far the journal had come. If the
	// journal is an older copy, or the other file is missing, all that was stored
	// before counts as purged.
	Journal string
	// Sync says when a purge counts as written.
	Sync SyncMode

	// Rate and Burst bound the purges per second that [List.Submit] applies at once
	// in each zone; the rest queue. 0 means DefaultRate and DefaultBurst, a negative
	// Rate no bound.
	Rate, Burst int
	// MaxQueued bounds the purges that queue in a zone, identical ones counted once.
	// 0 means DefaultMaxQueued.
	MaxQueued int

	// Logger gets what goes wrong with the journal. nil means slog.Default().
	Logger *slog.Logger

	compactAt int64 // for tests, instead of compactBytes
	mostBits  uint8 // for tests, instead of mostBits
}

// SyncMode says when a purge counts as written to the journal.
type SyncMode uint8

// The sync modes.
const (
	SyncAlways SyncMode = iota // when it is on the disk: it survives a power failure
	SyncOS                     // when the system has it: it survives the end of the process
)

// ConfigError is one setting that [New] or [NewHandler] refuses.
type ConfigError struct {
	Field  string // such as "MaxTombstones"
	Value  any
	Reason string // what is wrong and what to write instead
}

// Error returns field, value and reason in one line.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("purge: %s = %v: %s", e.Field, e.Value, e.Reason)
}

// The errors that callers may want to tell apart.
var (
	// ErrNotDurable says that a purge is in effect but may not be in the journal.
	// The journal recovers by itself. If the process ends before it has, the next
	// one counts everything as purged wherever the disk allowed a note of it.
	ErrNotDurable = errors.New("purge: in effect, but not durable")
	// ErrClosed says that the list was closed; nothing was purged.
	ErrClosed = errors.New("purge: the list is closed")
	// ErrInUse says that another process has the journal open.
	ErrInUse = errors.New("purge: another process uses this journal")
	// ErrBusy says that too many purges queue in a zone; nothing was purged. The
	// error is a *[BusyError].
	ErrBusy = errors.New("purge: too many purges are queued")
)

// resolve fills in the defaults, or reports all problems at once.
func (o Options) resolve() (Options, error) {
	var bad []error
	check := func(field string, value *int, otherwise int) {
		if *value < 0 {
			bad = append(bad, &ConfigError{field, *value, "must not be negative"})
		} else if *value == 0 {
			*value = otherwise
		}
	}
	check("MaxTombstones", &o.MaxTombstones, DefaultMaxTombstones)
	check("Burst", &o.Burst, DefaultBurst)
	check("MaxQueued", &o.MaxQueued, DefaultMaxQueued)
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.MaxTombstones > 1<<20 {
		bad = append(bad, &ConfigError{"MaxTombstones", o.MaxTombstones, "more than 1048576"})
	}
	if o.Sync > SyncOS {
		bad = append(bad, &ConfigError{"Sync", o.Sync, "unknown: use SyncAlways or SyncOS"})
	}
	if o.Journal != "" {
		if i, err := os.Stat(filepath.Dir(o.Journal)); err != nil || !i.IsDir() {
			bad = append(bad, &ConfigError{"Journal", o.Journal, "its directory doesn't exist"})
		} else if i, err := os.Stat(o.Journal); err == nil && !i.Mode().IsRegular() {
			bad = append(bad, &ConfigError{"Journal", o.Journal, "not a regular file"})
		}
	}
	if o.compactAt == 0 {
		o.compactAt = compactBytes
	}
	if o.mostBits == 0 {
		o.mostBits = mostBits
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, errors.Join(bad...)
}
