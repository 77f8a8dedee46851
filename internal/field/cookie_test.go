package field

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCookies(t *testing.T) {
	empty := Cookie{Bare: true}
	for _, c := range []struct {
		lines []string
		want  []Cookie
	}{
		{nil, nil},
		{[]string{""}, []Cookie{empty}},
		{[]string{"a=1"}, []Cookie{{Name: "a", Value: "1", Text: "a=1"}}},
		{[]string{` a = "1=2" ;;b`, "\t=x; "}, []Cookie{
			{Name: "a", Value: `"1=2"`, Text: `a = "1=2"`}, empty, {Name: "b", Bare: true, Text: "b"},
			{Value: "x", Text: "=x"}, empty,
		}},
	} {
		assert.Equal(t, c.want, slices.Collect(Cookies(c.lines)), "%q", c.lines)
	}
}

// No cookie that an application reads with net/http is overlooked, nor read out of
// order.
func FuzzCookies(f *testing.F) {
	f.Add("sid=1; b=2", "c")
	f.Add(`a=b; sid="x y"`, "sid =0")
	f.Add("0 =0\t; =;;x", "")
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		if strings.ContainsAny(first+second, "\r\n") {
			return // net/http takes them for space; no field that it received has any
		}
		ours := slices.Collect(Cookies(lines))
		r := http.Request{Header: http.Header{"Cookie": lines}}
		for _, theirs := range r.Cookies() {
			value := theirs.Value
			if theirs.Quoted {
				value = `"` + value + `"`
			}
			i := slices.IndexFunc(ours, func(c Cookie) bool {
				return c.Name == theirs.Name && c.Value == TrimOWS(value)
			})
			if i < 0 {
				t.Fatalf("net/http reads %+v in %q, left of ours: %+v", theirs, lines, ours)
			}
			ours = ours[i+1:]
		}
	})
}
