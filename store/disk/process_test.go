package disk

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// child starts this test binary in another role.
func child(t testing.TB, role string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WEIR_DISK_CHILD="+role)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	return cmd
}

func openOnce() {
	d, err := Open(Options{Dir: os.Getenv("WEIR_DISK_DIR")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("opened", d.Stats().Objects)
}

func TestASecondProcessIsRefused(t *testing.T) {
	d := openTier(t, Options{})
	try := func() string {
		out, err := child(t, "lock", "WEIR_DISK_DIR="+d.files.dir).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	assert.Equal(t, fmt.Sprintf("disk: open the cache directory: disk: the cache directory %s is in use by process %d; give each its own",
		d.files.dir, os.Getpid()), try())
	require.NoError(t, d.Close(t.Context()))
	assert.Equal(t, "opened 0", try())
}

// The bodies that the killed process writes say themselves what they must be.
func killedBody(r *rand.Rand) []byte {
	n := r.IntN(3000)
	if r.IntN(4) == 0 {
		n = r.IntN(500_000)
	}
	seed := r.Uint32()
	return append(binary.LittleEndian.AppendUint32(nil, seed), bytesOf(int(seed), n)...)
}

func wholeKilledBody(b []byte) bool {
	return len(b) >= 4 && string(b[4:]) == string(bytesOf(int(binary.LittleEndian.Uint32(b)), len(b)-4))
}

// writeForEver stores, replaces, freshens, spools and deletes until it's
// killed. Half of the keys are variants of a few primary keys.
func writeForEver() {
	d, err := Open(Options{Dir: os.Getenv("WEIR_DISK_DIR"), MaxBytes: 8 << 20})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	seed, _ := strconv.Atoi(os.Getenv("WEIR_DISK_SEED"))
	fmt.Println("writing")
	for w := range 3 {
		r := rand.New(rand.NewPCG(uint64(seed), uint64(w)))
		go func() {
			for {
				writeOnce(d, r)
			}
		}()
	}
	time.Sleep(10 * time.Second) // if nobody kills it
	os.Exit(1)
}

func writeOnce(d *Tier, r *rand.Rand) {
	n := r.IntN(40)
	k := key(n)
	o := object(k, killedBody(r))
	if n%2 == 1 {
		o = variant(key(1000+n%3), k, o.Body, "accept")
	}
	switch r.IntN(8) {
	case 0:
		d.Delete(o.Primary)
	case 1:
		if old, ok := d.Get(k); ok && !old.IsIndex() {
			d.Put(old.Freshened(old.Header.Header(), old.Life, time.Now()))
		}
	case 2:
		w, err := d.Create()
		if err != nil {
			return
		}
		for p := o.Body; len(p) > 0; {
			c := min(len(p), 1+r.IntN(100_000))
			if _, err := w.Write(p[:c]); err != nil {
				break
			}
			p = p[c:]
		}
		w.Commit(o)
		_ = w.Close()
	default:
		d.Put(o)
	}
}

// kill -9 at any moment: what is visible afterwards is whole, temporary files
// are gone, no file is damaged, and every variant found has its record.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	rounds, budget := 150, 10*time.Second
	if testing.Short() {
		rounds = 30
	}
	dir := t.TempDir()
	start, found := time.Now(), 0
	round := 0
	for ; round < rounds && time.Since(start) < budget; round++ {
		killOne(t, dir, round)
		d := openTier(t, Options{Dir: dir, MaxBytes: 8 << 20})
		if round%2 == 0 {
			scanned(t, d)
		}
		for i := range 40 {
			b, ok := bodyOf(d, key(i))
			if !ok {
				continue
			}
			found++
			require.True(t, wholeKilledBody(b), "not whole")
			if i%2 == 1 {
				require.Equal(t, [][]string{{"accept"}}, setsOf(t, d, key(1000+i%3)))
			}
		}
		scanned(t, d)
		s := d.Stats()
		require.Zero(t, s.Corrupt)
		objects, temps := filesIn(t, dir)
		require.Empty(t, temps)
		require.Len(t, objects, int(s.Objects))
		require.NoError(t, d.Close(t.Context()))
	}
	t.Logf("killed %d times, %d objects found whole", round, found)
	assert.Greater(t, found, round)
}

func killOne(t *testing.T, dir string, seed int) {
	cmd := child(t, "write", "WEIR_DISK_DIR="+dir, "WEIR_DISK_SEED="+strconv.Itoa(seed))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	require.Equal(t, "writing\n", line)
	<-time.After(time.Duration(rand.IntN(20_000)) * time.Microsecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}
