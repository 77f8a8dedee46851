package trace

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// fill sets every field of v, at any depth, to something that isn't zero, so
// that a field added to Record later is covered too.
func fill(t *testing.T, v reflect.Value, mark string) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(mark)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), mark)
		}
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 3, 5)
		for i := range s.Len() {
			fill(t, s.Index(i), fmt.Sprint(mark, i))
		}
		v.Set(s)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), mark)
		}
	default:
		t.Fatalf("fill doesn't know %v", v.Type())
	}
}

func full(t *testing.T, mark string) *Record {
	r := new(Record)
	fill(t, reflect.ValueOf(r).Elem(), mark)
	return r
}

// leaks walks all of v, spare capacity included, and reports what isn't zero.
func leaks(v reflect.Value, path string) []string {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			break
		}
		var out []string
		for i := range v.NumField() {
			out = append(out, leaks(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
		return out
	case reflect.Slice:
		var out []string
		if v.Len() != 0 {
			out = append(out, path+" isn't empty")
		}
		whole := v.Slice(0, v.Cap())
		for i := range whole.Len() {
			out = append(out, leaks(whole.Index(i), fmt.Sprint(path, "[", i, "]"))...)
		}
		return out
	}
	if !v.IsZero() {
		return []string{path + " isn't zero"}
	}
	return nil
}

func TestResetLeavesNothing(t *testing.T) {
	r := full(t, "secret")
	require.NotEmpty(t, leaks(reflect.ValueOf(r).Elem(), "Record"), "the walk must see a full record")
	r.Reset()
	assert.Empty(t, leaks(reflect.ValueOf(r).Elem(), "Record"))
	assert.Equal(t, 5, cap(r.Cache.Dropped), "capacity is kept")
	assert.Equal(t, 5, cap(r.Origin.Skipped), "capacity is kept")
	assert.Equal(t, 5, cap(r.Origin.Attempts), "capacity is kept")
}

// One request with thousands of dropped parameters must not make the pool hold
// that much memory from then on.
func TestResetDropsLargeSlices(t *testing.T) {
	r := new(Record)
	r.Cache.Dropped = make([]string, keepCap+1)
	r.Origin.Attempts = make([]Attempt, keepCap)
	r.Reset()
	assert.Zero(t, cap(r.Cache.Dropped))
	assert.Equal(t, keepCap, cap(r.Origin.Attempts))
}

func TestPoolNeverMixesRequests(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 500 {
				r := Get()
				if l := leaks(reflect.ValueOf(r).Elem(), "Record"); len(l) > 0 {
					t.Errorf("goroutine %d got a used record: %v", g, l)
				}
				r.Cache.KeyText = fmt.Sprint("secret of ", g)
				r.Cache.Dropped = append(r.Cache.Dropped, "query a", "query b")
				r.Origin.Attempts = append(r.Origin.Attempts, Attempt{Err: fmt.Sprint(g)})
				Put(r)
			}
		})
	}
	wg.Wait()
	Put(nil)
}

func TestCloneSharesNothing(t *testing.T) {
	r := full(t, "first")
	c := r.Clone()
	require.Equal(t, r, c)
	r.Cache.Dropped[0] = "second"
	r.Origin.Skipped[0].Reason = "second"
	r.Origin.Attempts[0].Err = "second"
	assert.Equal(t, full(t, "first"), c)
	r.Reset()
	assert.Equal(t, full(t, "first"), c)
	assert.Equal(t, new(Record), new(Record).Clone())
}

func TestContext(t *testing.T) {
	ctx := context.Background()
	assert.Nil(t, FromContext(ctx))
	r := new(Record)
	with := NewContext(ctx, r)
	assert.Same(t, r, FromContext(with))
	assert.Nil(t, FromContext(ctx))

	inner := new(Record)
	assert.Same(t, inner, FromContext(NewContext(with, inner)), "the innermost record counts")

	// A fetch that outlives its client keeps the context's values: without
	// hiding, it would write to a record that is somebody else's by then.
	detached := context.WithoutCancel(with)
	assert.Same(t, r, FromContext(detached))
	assert.Nil(t, FromContext(NewContext(detached, nil)))
}

func TestFromContextDoesNotAllocate(t *testing.T) {
	ctx := NewContext(context.Background(), new(Record))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sink *Record
	testnet.Allocs(t, 0, func() {
		sink = FromContext(ctx)
		sink = FromContext(context.Background())
	})
	_ = sink
}

func TestGetPutDoNotAllocate(t *testing.T) {
	testnet.Allocs(t, 0, func() {
		r := Get()
		r.Cache.Dropped = append(r.Cache.Dropped, "query utm_source")
		Put(r)
	})
}
