// Package integration runs weir's example proxy in front of real servers: the
// processes talk over TCP on the loopback interface, as they do in production.
// A test whose server isn't installed skips, or fails if WEIR_REQUIRE_SERVICES
// is 1.
package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirhttp/weir/internal/testnet"
	"go.uber.org/goleak"
)

// proxyBinary is the built example proxy.
var proxyBinary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-integration-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	proxyBinary = filepath.Join(dir, "reverseproxy")
	args := []string{"build", "-o", proxyBinary}
	if testnet.Race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = filepath.Join("..", "examples", "reverseproxy")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: building the proxy: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = 1
		}
	}
	return code
}

// need returns the path of a program, or ends the test.
func need(t *testing.T, program, install string, places ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	for _, p := range places {
		if err == nil {
			break
		}
		path, err = exec.LookPath(p)
	}
	if err == nil {
		return path
	}
	if os.Getenv("WEIR_REQUIRE_SERVICES") == "1" {
		t.Fatalf("%s isn't installed, and WEIR_REQUIRE_SERVICES is 1; install it with: %s", program, install)
	}
	t.Skipf("%s isn't installed; install it with: %s", program, install)
	return ""
}
