package middleware

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// starts are processes that follow one another on one disk.
type starts struct {
	t   *testing.T
	dir string
	log bytes.Buffer // of the last one
}

func (s *starts) journal() string { return filepath.Join(s.dir, "purges") }

// process starts one with the options changed, and returns the status word of its
// answer to a request, or the error with which it didn't start.
func (s *starts) process(change func(*Options)) (word string, err error) {
	s.t.Helper()
	s.log.Reset()
	tier := openDisk(s.t, filepath.Join(s.dir, "objects"))
	o := Options{Purge: journalIn(s.dir), Store: store.Options{Disk: tier}}
	o.Logger = slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	change(&o)
	mw, err := New(o)
	if err != nil {
		require.NoError(s.t, tier.Close(context.Background()), "it is the caller's")
		return "", err
	}
	defer func() { require.NoError(s.t, mw.Close(context.Background())) }()
	w := httptest.NewRecorder()
	mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		_, _ = w.Write([]byte("page"))
	})).ServeHTTP(w, request("GET", "/"))
	return w.Header().Get("Weir-Cache-Status"), nil
}

// answers expects the status word, and as many log lines about rules.
func (s *starts) answers(word string, lines int, change func(*Options)) {
	s.t.Helper()
	got, err := s.process(change)
	require.NoError(s.t, err)
	require.Equal(s.t, word, got)
	require.Equal(s.t, lines, strings.Count(s.log.String(), `msg="weir: that`)+strings.Count(s.log.String(), `msg="weir: the rules`), s.log.String())
}

func asBefore(*Options) {}

func cookieRule(o *Options) { o.Default.BypassCookies = []string{"session"} }

// What was stored under other rules isn't served under the present ones, and the log
// says why it's gone.
func TestChangedRulesPurgeTheDisk(t *testing.T) {
	s := &starts{t: t, dir: t.TempDir()}
	s.answers("MISS", 0, asBefore)
	s.answers("HIT", 0, asBefore)
	s.answers("MISS", 1, cookieRule)
	require.Contains(t, s.log.String(), "level=INFO msg=\"weir: the rules aren't those of the process before; everything that it stored is purged\" journal="+s.journal())
	s.answers("HIT", 0, cookieRule)
	s.answers("MISS", 1, func(o *Options) { cookieRule(o); o.Purge.RulesVersion = "2" })
	require.NoError(t, os.Remove(s.journal()+".rules"))
	s.answers("MISS", 1, func(o *Options) { cookieRule(o); o.Purge.RulesVersion = "2" })
	require.Contains(t, s.log.String(), "aren't known")
}

// A New that fails, for whatever reason, purges nothing, and the next one that succeeds
// under other rules does.
func TestNewThatFailsPurgesNothing(t *testing.T) {
	other := openDisk(t, filepath.Join(t.TempDir(), "objects"))
	require.True(t, other.Claim())
	for name, mistake := range map[string]func(*Options){
		"default route":    func(o *Options) { o.Default.StaleIfError = -time.Hour },
		"trusted proxies":  func(o *Options) { o.TrustedProxies = make([]netip.Prefix, 1) },
		"store":            func(o *Options) { o.Store.MemoryBytes = 1 },
		"another's disk":   func(o *Options) { o.Store.Disk = other },
		"admission":        func(o *Options) { o.Admission.ClientLimit = -1 },
		"purge":            func(o *Options) { o.Purge.List.MaxTombstones = -1 },
		"tag fields":       func(o *Options) { o.Purge.TagFields = []purge.TagField{{Name: "\n"}} },
		"rules unreadable": func(o *Options) { o.Purge.List.Journal += "2" },
	} {
		t.Run(name, func(t *testing.T) {
			s := &starts{t: t, dir: t.TempDir()}
			require.NoError(t, os.Mkdir(s.journal()+"2.rules", 0o700))
			s.answers("MISS", 0, asBefore)
			_, err := s.process(func(o *Options) { cookieRule(o); mistake(o) })
			require.Error(t, err)
			s.answers("HIT", 0, asBefore)
			s.answers("MISS", 1, cookieRule)
		})
	}
	require.NoError(t, other.Close(context.Background()))
}

// Where the fingerprint can't be written the cache starts, and what it stored isn't
// served by a next one, whichever rules that has.
func TestRulesThatCannotBeWrittenDown(t *testing.T) {
	for name, next := range map[string]func(*Options){"the rules before": asBefore, "the same rules": cookieRule} {
		t.Run(name, func(t *testing.T) {
			s := &starts{t: t, dir: t.TempDir()}
			s.answers("MISS", 0, asBefore)
			inTheWay := s.journal() + ".rules.new"
			require.NoError(t, os.Mkdir(inTheWay, 0o700))
			s.answers("MISS", 2, cookieRule)
			require.Contains(t, s.log.String(), "level=ERROR")
			require.NoError(t, os.Remove(inTheWay))
			s.answers("MISS", 1, next)
			s.answers("HIT", 0, next)
		})
	}
}

// What changes no response purges nothing: how much may run at once, and in which order
// and spelling the trusted networks are listed.
func TestRulesThatMeanTheSamePurgeNothing(t *testing.T) {
	networks := func(texts ...string) (list []netip.Prefix) {
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	s := &starts{t: t, dir: t.TempDir()}
	s.answers("MISS", 0, func(o *Options) { o.TrustedProxies = networks("10.0.0.0/8", "fd00::/8") })
	s.answers("HIT", 0, func(o *Options) {
		o.Default.Admission = RouteAdmission{Class: admission.Background, Cost: 2}
		o.Admission.Limiter = &admission.Options{}
		o.TrustedProxies = networks("fd00::1/8", "::ffff:10.0.0.0/104", "10.0.0.0/8")
	})
	s.answers("MISS", 1, func(o *Options) { o.TrustedProxies = networks("10.0.0.0/8") })
}

// The rules are changed while nothing can be written: everything is purged at once, and
// again by the next process, for which the purge isn't in the journal.
func TestRulesChangedWhileTheDiskIsFull(t *testing.T) {
	o := Options{Purge: journalIn(t.TempDir()), Logger: slog.New(slog.DiscardHandler)}
	o.Purge.List.Logger = o.Logger
	purged := func() bool { // by a process that only begins and ends
		t.Helper()
		mw, err := New(o)
		require.NoError(t, err)
		stats := mw.purges.list.Stats()
		_ = mw.Close(context.Background())          // where the journal couldn't be written, it says so
		return stats.Everything > stats.Now>>32<<32 // a process's numbers begin there
	}
	require.True(t, purged(), "the first process knows nothing")
	require.False(t, purged())
	o.Default.Name = "another"
	inTheWay := o.Purge.List.Journal + ".new"
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	require.True(t, purged())
	require.NoError(t, os.Remove(inTheWay))
	require.True(t, purged(), "the next one has to know that")
	require.False(t, purged())
}

// Where it can't be read by which rules things were stored, nobody may guess.
func TestRulesThatCannotBeRead(t *testing.T) {
	o := Options{Purge: journalIn(t.TempDir()), Logger: slog.New(slog.DiscardHandler)}
	require.NoError(t, os.Mkdir(o.Purge.List.Journal+".rules", 0o700))
	_, err := New(o)
	require.ErrorContains(t, err, "the fingerprint of the rules")
}
