package disk

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// scanBatch is the number of names read from a folder at once, and of files
// looked at between two looks at the clock.
const scanBatch = 64

// scan removes what an earlier process left half-written and builds the index
// of what it left whole. It reads heads only.
func (t *Tier) scan(ctx context.Context) {
	t.sweepTemp(ctx)
	pace := pacer{rate: t.o.ScanRate, start: time.Now()}
	whole, listed := true, true
	for i := range 256 {
		folder := filepath.Join(t.files.dir, hex.EncodeToString([]byte{byte(i)}))
		err := eachName(folder, func(names []string) error {
			for _, name := range names {
				unread, left := t.scanFile(name, byte(i))
				whole, listed = whole && !unread, listed && !left
			}
			t.trim()
			return pace.wait(ctx, len(names))
		})
		if err != nil && !absent(err) {
			whole = false
			if ctx.Err() != nil {
				return
			}
			t.readFailed(err)
		}
	}
	// With something missing, keys are looked up by name as before.
	t.scanned.Store(whole)
	t.listed.Store(whole && listed)
}

// eachName calls f with the names in a folder, some at a time.
func eachName(folder string, f func(names []string) error) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	for {
		names, err := d.Readdirnames(scanBatch)
		if len(names) > 0 {
			if err := f(names); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sweepTemp removes the temporary files of earlier processes.
func (t *Tier) sweepTemp(ctx context.Context) {
	folder := filepath.Join(t.files.dir, tempName)
	err := eachName(folder, func(names []string) error {
		for _, name := range names {
			if !strings.HasPrefix(name, t.files.run) {
				t.files.discard(filepath.Join(folder, name))
			}
		}
		return ctx.Err()
	})
	if err != nil && !absent(err) && ctx.Err() == nil {
		t.readFailed(err)
	}
}

// scanFile notes one file. Its lock keeps it from being replaced or deleted
// between the look and the note. It reports whether the file could not be read, and
// whether it was left alone, being of another version.
func (t *Tier) scanFile(name string, folder byte) (unread, left bool) {
	k, ok := keyOf(name)
	if !ok || k[0] != folder {
		return false, false // not ours
	}
	mu := t.files.of(&k)
	mu.Lock()
	defer mu.Unlock()
	if _, known := t.index.look(&k); known || t.hidden(&k) {
		return false, false
	}
	hs, size, err := t.readHeads(t.files.path(&k))
	switch {
	case err == nil && hs.key == k && size >= hs.end():
		t.index.note(&k, hs.version(size))
	case err == nil || errors.Is(err, errCorrupt):
		t.corrupt.Add(1)
		t.removeLocked(&k)
	case errors.Is(err, errVersion):
		t.unknown.Add(1)
		return false, true
	case !absent(err):
		return !t.fileFailed(&k, err), false
	}
	return false, false
}

func (t *Tier) readHeads(path string) (hs heads, size int64, err error) {
	f, err := t.files.open(path)
	if err != nil {
		return hs, 0, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return hs, 0, err
	}
	var b [bodyAt]byte
	if err := t.readFull(f, b[:], 0); err != nil {
		return hs, 0, err
	}
	hs, err = decodeHeads(b[:])
	return hs, st.Size(), err
}

// pacer keeps a loop to a number of steps in a second.
type pacer struct {
	rate  int
	start time.Time
	done  int
}

func (p *pacer) wait(ctx context.Context, n int) error {
	p.done += n
	if p.rate < 0 {
		return ctx.Err()
	}
	ahead := time.Duration(p.done)*time.Second/time.Duration(p.rate) - time.Since(p.start)
	if ahead < time.Millisecond {
		return ctx.Err()
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
