package middleware

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// stuck is a disk that can delete nothing, but hides what it should have deleted.
type stuck struct {
	store.SpoolTier
	hidden map[store.Key]bool
	untold []store.Key
	many   bool // more than it can tell
}

func (s *stuck) Get(k store.Key) (*store.Object, bool) {
	if s.hidden[k] {
		return nil, false
	}
	return s.SpoolTier.Get(k)
}

func (s *stuck) Delete(k store.Key) bool {
	was := !s.hidden[k]
	s.hidden[k], s.untold = true, append(s.untold, k)
	return was
}

func (s *stuck) Undeleted() ([]store.Key, bool) {
	untold := s.untold
	s.untold = nil
	if s.many && len(untold) > 0 {
		return nil, true
	}
	return untold, false
}

// What an unsafe request invalidated doesn't come back after a restart, even if the
// disk could not delete it. If that can't say what all it could not, nothing does.
func TestUndeletedDoesNotComeBack(t *testing.T) {
	for name, many := range map[string]bool{"one": false, "more than it can tell": true} {
		t.Run(name, func(t *testing.T) {
			d := newDiskRig(t)
			d.wrap = func(tier store.SpoolTier) store.SpoolTier {
				return &stuck{SpoolTier: tier, hidden: map[store.Key]bool{}, many: many}
			}
			d.restart()
			d.get("MISS", "/a")
			d.get("MISS", "/b")
			resp, _, err := d.do("POST", "/a")
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			d.wrap = nil
			d.restart()
			d.get("MISS", "/a")
			if many {
				d.get("MISS", "/b")
				d.askedOrigin(5)
			} else {
				d.get("HIT", "/b")
				d.askedOrigin(4) // the POST, too
			}
		})
	}
}

// An older journal is put back, alone or with the file beside it: what was purged since
// doesn't come back, though what was not may have to be fetched again.
func TestOlderJournalPutBack(t *testing.T) {
	for name, files := range map[string][]string{
		"alone":                   {"purges"},
		"with the file beside it": {"purges", "purges.lock"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDiskRig(t)
			d.get("MISS", "/a")
			d.restart()
			then := map[string][]byte{}
			for _, f := range files {
				b, err := os.ReadFile(filepath.Join(d.dir, f))
				require.NoError(t, err)
				then[f] = b
			}
			_, err := d.mw.Purge(t.Context(), purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/a"})
			require.NoError(t, err)
			d.get("MISS", "/b")
			d.stop()
			for f, b := range then {
				require.NoError(t, os.WriteFile(filepath.Join(d.dir, f), b, 0o600))
			}
			d.start()
			d.get("MISS", "/b") // what is newer than the journal shows that it's old
			d.get("MISS", "/a")
			require.True(t, d.mw.purges.list.Lost())
			d.restart()
			d.get("HIT", "/a")
			d.get("HIT", "/b")
		})
	}
}

// readOnly is a disk whose files can't be deleted: those there are, are told once.
type readOnly struct {
	store.SpoolTier
	told, untold []store.Key
}

func (r *readOnly) Delete(k store.Key) bool {
	if _, there := r.SpoolTier.Get(k); there && !slices.Contains(r.told, k) {
		r.told, r.untold = append(r.told, k), append(r.untold, k)
	}
	return false
}

func (r *readOnly) DeleteObject(*store.Object) bool { return false }

func (r *readOnly) Undeleted() ([]store.Key, bool) {
	untold := r.untold
	r.untold = nil
	return untold, false
}

// A response takes the place of one on disk that can't be deleted. What notes that is a
// purge of the key, and not of the response itself.
func TestAResponseIsNotPurgedByItsOwnStoring(t *testing.T) {
	d := newDiskRig(t)
	d.body = randomBytes(1, 1000) // memory's
	d.get("MISS", "/a")
	_, err := d.mw.Purge(t.Context(), purge.Selector{Kind: purge.Host, Host: "example.com"})
	require.NoError(t, err)
	d.wrap = func(tier store.SpoolTier) store.SpoolTier { return &readOnly{SpoolTier: tier} }
	d.restart()
	before := d.mw.purges.list.Now()
	d.get("MISS", "/a")
	require.Equal(t, before+1, d.mw.purges.list.Now(), "it has been noted")
	d.get("HIT", "/a")
	d.wrap = nil
	d.restart()
	d.get("HIT", "/a") // the number went to the disk with it
	d.askedOrigin(2)
}
