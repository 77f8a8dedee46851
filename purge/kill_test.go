package purge

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

const childEnv = "WEIR_PURGE_TEST_JOURNAL"

// TestMain is the child's main function when TestKilled starts the test binary
// again.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		killedChild(path, os.Getenv(childEnv+"_SYNC") == "os")
		return
	}
	testnet.MainCheck(m)
}

// killedChild purges and says so after each, until it is killed.
func killedChild(path string, system bool) {
	o := Options{Journal: path, Logger: quiet(), compactAt: 2000}
	if system {
		o.Sync = SyncOS
	}
	l, err := New(o)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var out sync.Mutex
	first := l.Now()
	fmt.Println("first", first)
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 1_000_000 {
				tag := fmt.Sprintf("%d-%d-%d", first, g, i%200)
				if _, err := l.Add(background, tagged(tag)); err != nil {
					return
				}
				out.Lock()
				fmt.Println("purged", tag)
				out.Unlock()
			}
		})
	}
	wg.Wait()
}

// A process is killed at random instants, at its start and while it rewrites the
// journal too. Each purge that it had acknowledged is in effect afterwards, and
// nothing else is purged.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 80
	if testing.Short() {
		rounds = 20
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	var wg sync.WaitGroup
	const chains = 4
	var mu sync.Mutex
	total := 0
	for c := range chains {
		wg.Go(func() {
			path := filepath.Join(dir, strconv.Itoa(c))
			w := rand.New(rand.NewPCG(uint64(c), uint64(time.Now().UnixNano())))
			acked := map[string]uint64{} // tag → number of a response that it purged
			var last uint64
			for round := range rounds / chains {
				first, tags := runKilled(t, self, path, c%2 == 1, round%2 == 1, time.Duration(w.IntN(60_000))*time.Microsecond)
				for _, tag := range tags {
					acked[tag] = first
				}
				mu.Lock()
				total += len(tags)
				mu.Unlock()
				last = max(last, first)
				if !verifyKilled(t, path, acked, last, round) {
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d purges acknowledged", total)
	assert.NotZero(t, total)
}

// runKilled runs a child for a while: from its start, which on a slow machine may
// be all of it, or from its first purge.
func runKilled(t *testing.T, self, path string, system, fromFirst bool, life time.Duration) (first uint64, tags []string) {
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	if system {
		cmd.Env = append(cmd.Env, childEnv+"_SYNC=os")
	}
	pipe, err := cmd.StdoutPipe()
	if !assert.NoError(t, err) || !assert.NoError(t, cmd.Start()) {
		return 0, nil
	}
	patience := life
	if fromFirst {
		patience = time.Minute
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "first":
			first, _ = strconv.ParseUint(rest, 10, 64)
		case "purged":
			if fromFirst && len(tags) == 0 {
				timer.Reset(life)
			}
			tags = append(tags, rest)
		case "error":
			t.Error(rest)
		}
	}
	_ = cmd.Wait()
	return first, tags
}

// verifyKilled opens the journal as the next process would.
func verifyKilled(t *testing.T, path string, acked map[string]uint64, last uint64, round int) bool {
	l, err := New(Options{Journal: path, Logger: quiet(), MaxTombstones: 1 << 20})
	if !assert.NoError(t, err) {
		return false
	}
	defer func() { assert.NoError(t, l.Close(background)) }()
	ok := round == 0 || assert.False(t, l.Lost(), "round %d", round)
	for tag, seq := range acked {
		s := NewSubject(Facts{Seq: seq, Zone: "z", Tags: []string{tag}})
		ok = ok && assert.Equal(t, Gone, l.Check(s), "round %d: %s came back", round, tag)
	}
	if last > 0 && round > 0 {
		ok = ok && assert.Greater(t, l.Now(), last)
		ok = ok && assert.Equal(t, Valid, l.Check(NewSubject(Facts{Seq: last, Zone: "z", Tags: []string{"innocent"}})))
	}
	return ok
}
