package lb

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The budget is for repetitions that load origins. An attempt that got no connection
// loaded none: whoever can be served is, however many origins are gone.
func TestAttemptsThatNobodySawCostNoBudget(t *testing.T) {
	s := newSite(t, saying(http.StatusOK, "ok"))
	p := plainPool("shop", deadAddress(t), s.address())
	p.Retry = Retry{Percent: -1, Floor: -1}
	p.Ejection.Off = true
	b := newBalancer(t, Options{Pools: []Pool{p}})
	for range 20 {
		assert.Equal(t, http.StatusOK, ask(t, b, http.MethodGet, "http://shop.test/", "").status)
	}
	assert.Equal(t, 20, s.count(http.MethodGet))
}
