package middleware

import (
	"os"
	"path/filepath"
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
	return untold, false
}

// What an unsafe request invalidated doesn't come back after a restart, even if the
// disk could not delete it.
func TestUndeletedDoesNotComeBack(t *testing.T) {
	d := newDiskRig(t)
	d.wrap = func(tier store.SpoolTier) store.SpoolTier {
		return &stuck{SpoolTier: tier, hidden: map[store.Key]bool{}}
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
	d.get("HIT", "/b")
	d.askedOrigin(4) // the POST, too
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
