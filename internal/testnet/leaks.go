package testnet

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// leakPatience is how long goroutines have to end after a test.
const leakPatience = 5 * time.Second

// CheckLeaks fails the test if, when it and its later cleanups are over, there
// are goroutines that weren't there when CheckLeaks was called. Call it first.
// Goroutines get five seconds to end. Idle connections of the default client
// are closed, others are the test's own business.
//
// It can't tell whose goroutine it sees, so it is not for tests that run in
// parallel with others. Inside a bubble of testing/synctest it isn't needed:
// the bubble itself waits for its goroutines.
func CheckLeaks(t testing.TB) {
	t.Helper()
	checkLeaks(t, leakPatience)
}

func checkLeaks(t testing.TB, patience time.Duration) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		if left := leaked(before, patience); len(left) > 0 {
			t.Errorf("%d goroutines left behind:\n\n%s", len(left), strings.Join(left, "\n\n"))
		}
	})
}

// MainCheck runs the package's tests and exits the process. It fails if
// goroutines are left behind when all tests have passed. Use it as the whole of
// TestMain:
//
//	func TestMain(m *testing.M) { testnet.MainCheck(m) }
func MainCheck(m *testing.M) {
	os.Exit(mainCheck(m.Run, leakPatience))
}

func mainCheck(run func() int, patience time.Duration) int {
	before := goroutines()
	code := run()
	if code != 0 {
		return code // a test that failed half-way may well leave something
	}
	if left := leaked(before, patience); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: %d goroutines left behind by this package's tests:\n\n%s\n",
			len(left), strings.Join(left, "\n\n"))
		return 1
	}
	return 0
}

// leaked returns the stacks of goroutines that aren't in before, as soon as
// there are none or patience is over.
func leaked(before map[string]string, patience time.Duration) []string {
	end := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		http.DefaultClient.CloseIdleConnections()
		var left []string
		for id, stack := range goroutines() {
			if _, ok := before[id]; !ok {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			slices.Sort(left)
			return left
		}
		time.Sleep(pause)
	}
}

// goroutines returns the stacks of all goroutines but the caller's and those
// that belong to the testing runtime, by number.
func goroutines() map[string]string {
	buf := make([]byte, 256<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	out := map[string]string{}
	for i, stack := range strings.Split(strings.TrimSpace(string(buf)), "\n\n") {
		if i == 0 || isRuntime(stack) { // the caller comes first
			continue
		}
		head, _, _ := strings.Cut(stack, " [") // "goroutine 7 [select]:"
		out[head] = stack
	}
	return out
}

// isRuntime reports whether the goroutine was there without the tests' doing.
func isRuntime(stack string) bool {
	for _, mark := range []string{
		"\ncreated by testing.",          // tests and their runners
		"\ntesting.(*M).",                // the main goroutine
		"\nmain.main(",                   // also the main goroutine
		"\ncreated by internal/synctest", // a bubble's own
		"\ncreated by testing/synctest",
		"\ncreated by runtime.",
		"\ncreated by runtime/", // profiles and execution traces
		"\ncreated by os/signal.",
		"\ncreated by internal/fuzz",
	} {
		if strings.Contains(stack, mark) {
			return true
		}
	}
	return false
}
