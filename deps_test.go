package weir_test

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module  = "github.com/weirhttp/weir"
	blake3  = "github.com/zeebo/blake3"
	otter   = "github.com/maypok86/otter/v2"
	xsync   = "golang.org/x/sync"
	testify = "github.com/stretchr/testify"
)

// A room is a folder of the repository's root, with all that is below it.
type room struct {
	leaf    bool     // a part that works alone
	uses    []string // the modules its code may import besides x/sync
	imports string   // the rooms it may import besides itself and internal; "*" for all
	tests   bool     // it holds nothing but tests
	apart   bool     // its modules' go.mod files say what they need
}

// rooms lists them all: a folder with Go files that isn't here fails the test.
// Modules nested in a room obey its doors, but need what their go.mod says.
var rooms = map[string]room{
	"cachekey":    {leaf: true, uses: []string{blake3}},
	"store":       {leaf: true, uses: []string{blake3, otter}},
	"admission":   {leaf: true},
	"lb":          {leaf: true, uses: []string{blake3}},
	"purge":       {leaf: true},
	"trace":       {leaf: true},
	"internal":    {},
	"middleware":  {imports: "*", uses: []string{blake3}},
	"integration": {imports: "*", tests: true},
	"examples":    {imports: "*", apart: true},
}

// source is a Go file as far as this test cares.
type source struct {
	file    string // relative to the root, with slashes
	nested  bool   // it belongs to another module than the root's
	imports []string
}

func (s source) room() string {
	head, _, below := strings.Cut(s.file, "/")
	if !below {
		return ""
	}
	return head
}

func (s source) isTest() bool { return strings.HasSuffix(s.file, "_test.go") }

// forTests reports whether s is a test or belongs to a package made for tests,
// like storetest.
func (s source) forTests() bool {
	return s.isTest() || strings.HasSuffix(path.Dir(s.file), "test") || within(path.Dir(s.file), "internal/testnet")
}

// problems returns what is wrong with the imports of s, each with its cure.
func problems(s source) []string {
	own, known := rooms[s.room()]
	if s.room() != "" && !known {
		return []string{fmt.Sprintf("%s: no rules for the folder %q; add it to rooms in deps_test.go", s.file, s.room())}
	}
	var out []string
	if own.tests && !s.isTest() {
		out = append(out, fmt.Sprintf("%s: %s holds tests only; name it _test.go or move it", s.file, s.room()))
	}
	for _, p := range s.imports {
		var cure string
		if isStd(p) {
			continue
		} else if within(p, module) {
			cure = s.inside(own, strings.TrimPrefix(strings.TrimPrefix(p, module), "/"))
		} else {
			cure = s.outside(own, p)
		}
		if cure != "" {
			out = append(out, fmt.Sprintf("%s imports %s: %s", s.file, p, cure))
		}
	}
	return out
}

// inside judges an import of one of weir's packages.
func (s source) inside(own room, target string) string {
	to, _, _ := strings.Cut(target, "/")
	switch {
	case within(target, "internal/testnet") && !s.forTests():
		return "testnet is for tests; move what the code needs elsewhere in internal"
	case to == "internal", to == s.room() && to != "":
		return ""
	case own.imports == "*":
		return ""
	case to == "middleware":
		return "middleware is the outermost part; return the fact as a value and let middleware import this package"
	case own.leaf && rooms[to].leaf:
		return "parts never import each other; let middleware carry the value across, as a plain type of each"
	case s.room() == "internal":
		return "internal packages serve the parts and know none of them; move the shared code here, or the test to its part"
	}
	return "this folder may import only itself and internal"
}

// outside judges an import of another project's package.
func (s source) outside(own room, p string) string {
	if s.nested || own.apart {
		return ""
	}
	for _, m := range append([]string{xsync}, own.uses...) {
		if within(p, m) {
			return ""
		}
	}
	if within(p, testify) {
		if s.forTests() {
			return ""
		}
		return "testify is for tests only"
	}
	return "not among what this folder may use; do without, or put the code into a nested module with its own go.mod"
}

func within(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}

// isStd reports whether p is a package of the standard library: the first
// element of any other module's path has a dot.
func isStd(p string) bool {
	head, _, _ := strings.Cut(p, "/")
	return !strings.Contains(head, ".")
}

// walk reads all Go files below the current folder, the repository's root, and
// the folders of all modules.
func walk(t *testing.T) (sources []source, modules []string) {
	nested := func(dir string) bool {
		return slices.ContainsFunc(modules, func(m string) bool { return m != "." && within(dir, m) })
	}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
				name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil {
				modules = append(modules, filepath.ToSlash(file))
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{file: filepath.ToSlash(file), nested: nested(path.Dir(filepath.ToSlash(file)))}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, p)
		}
		sources = append(sources, s)
		return nil
	})
	require.NoError(t, err)
	return sources, modules
}

func TestDoorsBetweenPackages(t *testing.T) {
	sources, _ := walk(t)
	seen := map[string]bool{}
	for _, s := range sources {
		seen[s.room()] = true
		for _, p := range problems(s) {
			t.Error(p)
		}
	}
	assert.True(t, seen["trace"] && seen["internal"] && seen["cachekey"] && seen["store"],
		"the walk must reach the packages; it saw only %v", seen)
}

// The test above passes when its rules see nothing, so they are tested too.
func TestDoorRules(t *testing.T) {
	tests := []struct {
		file   string
		nested bool
		path   string
		want   string // part of the problem; empty for none
	}{
		{"trace/log.go", false, "log/slog", ""},
		{"trace/log.go", false, module + "/internal/field", ""},
		{"trace/log.go", false, xsync + "/errgroup", ""},
		{"trace/log.go", false, module + "/cachekey", "never import each other"},
		{"trace/log_test.go", false, module + "/cachekey", "never import each other"},
		{"trace/log.go", false, module + "/middleware", "outermost"},
		{"trace/log.go", false, module, "only itself and internal"},
		{"trace/log.go", false, module + "/examples/quickstart", "only itself and internal"},
		{"trace/log.go", false, "github.com/weirhttp/weirder", "not among"},
		{"trace/otel/spans.go", true, module + "/trace", ""},
		{"trace/otel/spans.go", true, "go.opentelemetry.io/otel", ""},
		{"trace/otel/spans.go", true, module + "/lb", "never import each other"},
		{"trace/otel/spans.go", true, module + "/middleware", "outermost"},
		{"trace/spans.go", false, "go.opentelemetry.io/otel", "not among"},
		{"store/store.go", false, module + "/store/flight", ""},
		{"store/flight/flight.go", false, module + "/store", ""},
		{"store/flight/flight.go", false, otter, ""},
		{"store/flight/flight.go", false, module + "/purge", "never import each other"},
		{"store/storetest/contract.go", false, testify + "/assert", ""},
		{"store/storetest/contract.go", false, module + "/internal/testnet", ""},
		{"store/store.go", false, testify + "/assert", "tests only"},
		{"store/store.go", false, module + "/internal/testnet", "for tests"},
		{"store/store_test.go", false, module + "/internal/testnet", ""},
		{"store/store_test.go", false, testify + "/require", ""},
		{"cachekey/key.go", false, blake3, ""},
		{"cachekey/key.go", false, otter, "not among"},
		{"lb/hash.go", false, blake3, ""},
		{"purge/list.go", false, blake3, "not among"},
		{"internal/field/list.go", false, module + "/internal/rfc9111", ""},
		{"internal/field/list.go", false, module + "/trace", "know none of them"},
		{"internal/field/list_test.go", false, module + "/trace", "know none of them"},
		{"internal/field/list.go", false, module + "/middleware", "outermost"},
		{"middleware/pipeline.go", false, module + "/lb", ""},
		{"middleware/nextjs/rules.go", false, module + "/middleware", ""},
		{"middleware/pipeline.go", false, "gopkg.in/yaml.v3", "not among"},
		{"examples/gateway/main.go", true, module + "/middleware", ""},
		{"examples/gateway/main.go", true, "gopkg.in/yaml.v3", ""},
		{"integration/flood_test.go", false, module + "/middleware", ""},
		{"integration/flood.go", false, module + "/middleware", "tests only"},
		{"weir.go", false, module + "/middleware", "outermost"},
		{"deps_test.go", false, testify + "/assert", ""},
		{"proxy/proxy.go", false, "net/http", "no rules for the folder"},
	}
	for _, tt := range tests {
		got := problems(source{tt.file, tt.nested, []string{tt.path}})
		if tt.want == "" {
			assert.Empty(t, got)
		} else if assert.Len(t, got, 1, "%s importing %s", tt.file, tt.path) {
			assert.Contains(t, got[0], tt.want)
		}
	}
}

// goJSON runs the go command and decodes what it prints.
func goJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s", strings.Join(args, " "))
	require.NoError(t, json.Unmarshal(out, into))
}

// Whoever imports weir gets what go.mod lists.
func TestRootModuleNeedsLittle(t *testing.T) {
	var mod struct {
		Module  struct{ Path string }
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace, Exclude []any
	}
	goJSON(t, &mod, "mod", "edit", "-json", "go.mod")
	assert.Equal(t, module, mod.Module.Path)
	allowed := []string{blake3, otter, xsync, testify}
	for _, r := range mod.Require {
		if !r.Indirect {
			assert.Contains(t, allowed, r.Path,
				"go.mod requires %s: do without, or move what needs it into a nested module with its own go.mod", r.Path)
		}
	}
	assert.Empty(t, mod.Replace, "importers ignore replace; go.work ties the modules together")
	assert.Empty(t, mod.Exclude)
}

// A module that go.work doesn't list is neither built nor tested by anyone.
func TestWorkspaceListsEveryModule(t *testing.T) {
	_, modules := walk(t)
	var work struct{ Use []struct{ DiskPath string } }
	goJSON(t, &work, "work", "edit", "-json", "go.work")
	var listed []string
	for _, u := range work.Use {
		listed = append(listed, path.Clean(u.DiskPath))
	}
	assert.ElementsMatch(t, modules, listed, "run: go work use -r .")
}
