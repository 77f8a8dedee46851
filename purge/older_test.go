package purge

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// copied is the journal and the file beside it as they were at some time.
type copied struct{ journal, beside []byte }

func copyOf(t *testing.T, path string) (c copied) {
	var err error
	c.journal, err = os.ReadFile(path)
	require.NoError(t, err)
	c.beside, err = os.ReadFile(path + ".lock")
	require.NoError(t, err)
	return c
}

func put(t *testing.T, path string, b []byte) {
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// Two processes have purged, and copies were made now and then. What is put back is
// trusted only if it holds all that was purged; what a crash leaves is.
func TestJournalPutBack(t *testing.T) {
	dir := t.TempDir()
	o := Options{Journal: filepath.Join(dir, "j"), Logger: quiet(), compactAt: 700}
	l := mustNew(t, o)
	stored := l.Now()
	var then []copied
	remember := func() { then = append(then, copyOf(t, o.Journal)) }
	for _, tag := range []string{"a", "b"} {
		remember()
		mustAdd(t, l, tagged(tag))
	}
	require.NoError(t, l.Close(background))
	remember() // 2: the end of the first process
	l = mustNew(t, o)
	second := l.Now()
	remember() // 3: the second has begun
	for range 20 {
		mustAdd(t, l, tagged("c")) // the file is rewritten several times
		_, err := l.Invalidate(background, Target{Zone: "z", Host: "h", Path: "/u"})
		require.NoError(t, err)
	}
	remember() // 4
	mustAdd(t, l, tagged("d"))
	require.NoError(t, l.Close(background))
	now := copyOf(t, o.Journal)

	generation := second >> generationBits
	tests := map[string]struct {
		put  copied
		lost bool
	}{
		"nothing":                                 {now, false},
		"a journal of the first process":          {copied{then[1].journal, now.beside}, true},
		"the last journal of the first process":   {copied{then[2].journal, now.beside}, true},
		"the first journal of the second process": {copied{then[3].journal, now.beside}, true},
		"a journal without its last purge":        {copied{then[4].journal, now.beside}, true},
		"the file beside it is missing":           {copied{now.journal, nil}, true},
		"the file beside it is damaged":           {copied{now.journal, []byte("generation 00000000000000000009\n")}, true},
		// What a crash leaves:
		"before the new generation was noted":    {then[2], false},
		"before the new journal was written":     {copied{then[2].journal, []byte(progress{generation, stored + 2}.text())}, false},
		"before the new journal was noted":       {copied{then[3].journal, []byte(progress{generation, stored + 2}.text())}, false},
		"before the last record was noted":       {copied{now.journal, then[4].beside}, false},
		"before the last record was written":     {then[4], false},
		"the first journal, before it was noted": {copied{then[0].journal, []byte(progress{stored >> generationBits, 0}.text())}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			put(t, o.Journal, tt.put.journal)
			put(t, o.Journal+".lock", tt.put.beside)
			l := mustNew(t, o)
			assert.Equal(t, tt.lost, l.Lost())
			if tt.lost {
				for _, s := range []Facts{{Tags: []string{"a"}}, {Tags: []string{"d"}}, {Host: "h", Path: "/u"}, {Tags: []string{"other"}}} {
					s.Zone, s.Seq = "z", stored
					assert.Equal(t, Gone, l.Check(NewSubject(s)), s)
				}
			} else {
				assert.Equal(t, Valid, l.Check(NewSubject(Facts{Zone: "z", Seq: second, Tags: []string{"other"}})))
			}
			require.NoError(t, l.Close(background))
			l = mustNew(t, o)
			assert.False(t, l.Lost(), "the next process trusts what this one has written")
			require.NoError(t, l.Close(background))
		})
	}
}

// Both files were put back as they were, but what is stored wasn't: it shows that the
// journal had come further.
func TestWitnessOfALostJournal(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { witnessOfALostJournal(t, dir) })
}

func witnessOfALostJournal(t *testing.T, dir string) {
	time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	o := Options{Journal: filepath.Join(dir, "j"), Logger: quiet()}
	l := mustNew(t, o)
	stored := l.Now()
	mustAdd(t, l, tagged("a"))
	between := l.Written()
	assert.Equal(t, l.Now(), between)
	old := copyOf(t, o.Journal)
	mustAdd(t, l, tagged("b"))
	after := l.Written()
	require.NoError(t, l.Close(background))
	l = mustNew(t, o) // another generation that the copy doesn't know of
	another := l.Written()
	assert.Equal(t, l.Now(), another)
	require.NoError(t, l.Close(background))

	b := func() *Subject { return NewSubject(Facts{Zone: "z", Seq: stored, Tags: []string{"b"}}) }
	for _, witness := range []uint64{after, another} {
		time.Sleep(2 * time.Second) // nobody puts something back in less than a second
		put(t, o.Journal, old.journal)
		put(t, o.Journal+".lock", old.beside)
		l = mustNew(t, o)
		require.Greater(t, l.Now(), another, "no number is used again")
		for _, harmless := range []uint64{0, stored, between, l.Written()} {
			l.Witness(harmless)
			require.False(t, l.Lost())
		}
		fresh := l.Now()
		require.Equal(t, Valid, l.Check(b()), "nobody knows better yet")
		l.Witness(witness)
		assert.True(t, l.Lost())
		assert.Equal(t, Gone, l.Check(b()))
		l.Witness(witness)
		assert.Equal(t, fresh+1, l.Now(), "once is enough")
		require.NoError(t, l.Close(background))
		l = mustNew(t, o)
		assert.False(t, l.Lost())
		assert.Equal(t, Gone, l.Check(b()), "it is in the journal")
		require.NoError(t, l.Close(background))
	}
}

// A list without a journal has no opinion.
func TestWitnessWithoutJournal(t *testing.T) {
	l := mustNew(t, Options{})
	s := page(l, "/")
	l.Witness(l.Now() - 1)
	assert.Zero(t, l.Written())
	assert.Equal(t, Valid, l.Check(s))
}
