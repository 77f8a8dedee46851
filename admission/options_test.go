package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaults(t *testing.T) {
	r, err := Options{Routes: []Route{{Name: "a"}, {Name: "b", QueueTimeout: 10 * time.Second, Queue: 7, Limit: 9, Cost: 3}}}.resolve()
	require.NoError(t, err)
	global := waiting{512, time.Second, 250 * time.Millisecond, 100 * time.Millisecond, 1024, 1}
	assert.Equal(t, resolved{
		limit: 1024, queue: 512,
		names:  []string{"", "a", "b"},
		routes: []waiting{global, global, {7, 10 * time.Second, 2500 * time.Millisecond, time.Second, 9, 3}},
	}, r)
	r, err = Options{Limit: 1, QueueTimeout: time.Minute, StandingAfter: -1, StandingTimeout: time.Second, Routes: []Route{{Name: "a"}}}.resolve()
	require.NoError(t, err)
	assert.Equal(t, waiting{1, time.Minute, -1, time.Second, 1, 1}, r.routes[0])
	assert.Equal(t, r.routes[0], r.routes[1])
}

// fields returns the fields of joined configuration errors.
func fields(t *testing.T, err error) (out []string) {
	t.Helper()
	require.Error(t, err)
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		c, ok := e.(*ConfigError)
		require.True(t, ok, "%T", e)
		assert.NotEmpty(t, c.Reason)
		out = append(out, c.Field)
	}
	return out
}

func TestContradictions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Limit: -1, ReserveCritical: -1, ReserveNormal: 2 << 20}, []string{"Limit", "ReserveCritical", "ReserveNormal"}},
		{Options{Limit: 10, ReserveCritical: 6, ReserveNormal: 4}, []string{"ReserveCritical + ReserveNormal"}},
		{Options{QueueTimeout: -1}, []string{"QueueTimeout"}},
		{Options{QueueTimeout: 2 * time.Hour}, []string{"QueueTimeout"}},
		{Options{Queue: -1, QueueTimeout: 1, TenantQueue: 1}, []string{"QueueTimeout", "TenantQueue"}},
		{Options{Queue: 2 << 20}, []string{"Queue"}},
		{Options{Queue: 10, TenantQueue: 11}, []string{"TenantQueue"}},
		{Options{StandingTimeout: 2 * time.Second}, []string{"StandingTimeout"}},
		{Options{Routes: make([]Route, 1025)}, nil},
		{Options{Limit: 10, Routes: []Route{
			{Limit: 11, Cost: -1},
			{Name: "a", Limit: -1, Cost: 11, Queue: 6},
			{Name: "a", Limit: 5, Cost: 6, Queue: -1, QueueTimeout: 1},
			{Name: "b", QueueTimeout: -1},
			{Name: "c", QueueTimeout: time.Second, StandingTimeout: time.Minute},
		}}, []string{
			"Routes[0].Name", "Routes[0].Limit", "Routes[0].Cost",
			"Routes[1].Limit", "Routes[1].Cost", "Routes[1].Queue",
			"Routes[2].Name", "Routes[2].Cost", "Routes[2].QueueTimeout",
			"Routes[3].QueueTimeout", "Routes[4].StandingTimeout",
		}},
	} {
		l, err := New(c.o)
		assert.Nil(t, l)
		got := fields(t, err)
		if c.want != nil {
			assert.Equal(t, c.want, got)
		}
	}
	_, err := New(Options{Limit: 10, Routes: []Route{{Name: "a", Limit: 11}}})
	assert.EqualError(t, err, "admission: Routes[0].Limit = 11: is above the global Limit (10) and could never be reached; lower it, or raise Options.Limit")
}
