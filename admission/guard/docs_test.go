package guard

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs is the text that explains the package.
func docs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guard.md")
	require.NoError(t, err)
	return string(text)
}

func TestPolicyOfTheDocs(t *testing.T) {
	_, text, _ := strings.Cut(docs(t), "```json\n")
	text, _, ok := strings.Cut(text, "```")
	require.True(t, ok)
	p, err := ParsePolicy([]byte(text), time.Date(2029, 12, 31, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	assert.Equal(t, uint64(42), p.Version)
	_, err = ParsePolicy([]byte(text), p.Expires)
	assert.ErrorContains(t, err, "has expired")
}

func TestDocsNameEachReasonAndProof(t *testing.T) {
	text := docs(t)
	for r := Admitted + 1; r < lastReason; r++ {
		status := "503"
		if r.Rate() {
			status = "429"
		}
		_, row, ok := strings.Cut(text, "\n| `"+r.String()+"` |")
		row, _, _ = strings.Cut(row, "\n")
		assert.True(t, ok && strings.Contains(row, "| "+status+" |"), r)
	}
	for p := range lastProof {
		assert.Contains(t, text, "`"+p.String()+"`")
	}
}
