package lb

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// policyTable is the table of docs/load-balancing.md.
func policyTable() string {
	out := "| policy | name | what it does | cost | when to use it |\n|---|---|---|---|---|\n"
	for _, p := range Policies() {
		out += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", p.Policy, p.Name, p.Description, p.Cost, p.Use)
	}
	return out
}

// The documentation says what Policies says, and has the hash's test vectors.
func TestDocumentationIsTheData(t *testing.T) {
	text, err := os.ReadFile("../docs/load-balancing.md")
	require.NoError(t, err)
	assert.Contains(t, string(text), "\n"+policyTable()+"\n", "write this into docs/load-balancing.md:\n%s", policyTable())
	assert.Contains(t, string(text), "```\n"+hashVectors+"```\n")
}

func TestPoliciesAreComplete(t *testing.T) {
	all := Policies()
	require.Len(t, all, 12)
	seen := map[Policy]bool{}
	for _, p := range all {
		assert.False(t, seen[p.Policy])
		seen[p.Policy] = true
		for _, s := range []string{string(p.Policy), p.Name, p.Description, p.Cost, p.Use} {
			assert.NotEmpty(t, s)
			assert.NotContains(t, s, "|")
		}
		assert.Equal(t, strings.HasPrefix(string(p.Policy), "hash-"), p.Policy.hashes())
		assert.Equal(t, p.Policy.hashes(), p.Policy.orderOf(true) == byKey)
		assert.Equal(t, p.Policy.hashes() || p.Policy == Random, p.Policy.orderOf(false) == atRandom)
	}
	all[0].Name = "changed"
	assert.NotEqual(t, "changed", Policies()[0].Name)
}
