package purge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive is a list that forgets nothing and looks at everything.
type naive []tombstone

func (n naive) check(f Facts) Verdict {
	v := Valid
	for _, t := range n {
		if f.Seq >= t.seq || !matches(t.sel, f) {
			continue
		}
		if !t.sel.Soft {
			return Gone
		}
		v = Stale
	}
	return v
}

func matches(s Selector, f Facts) bool {
	if s.Kind == Everything {
		return true
	}
	if s.Zone != f.Zone && (s.Kind != Key || s.Zone != "") { // zones have names here
		return false
	}
	has := func(list []string) bool {
		for _, t := range list {
			if t == s.Tag {
				return true
			}
		}
		return false
	}
	switch s.Kind {
	case Zone:
		return true
	case Host:
		return s.Host == f.Host
	case URL:
		return s.Host == f.Host && s.Path == f.Path
	case ExactURL:
		return s.Host == f.Host && s.Path == f.Path && s.Query == f.Query
	case Prefix:
		return s.Host == f.Host && strings.HasPrefix(f.Path, s.Path)
	case Tag:
		return f.AllTags || has(f.Tags)
	case Group:
		return f.AllTags || s.Origin == f.Scheme+"://"+f.Host && has(f.Groups)
	default:
		return s.Key == f.Key
	}
}

type world struct{ *rand.Rand }

func (w world) pick(of string, n int) string { return fmt.Sprintf("%s%d", of, w.IntN(n)) }

func (w world) path() string {
	p := ""
	for range 1 + w.IntN(3) {
		p += w.pick("/", 4)
	}
	return p + strings.Repeat("x", w.IntN(2)*w.IntN(150))
}

func (w world) facts(seq uint64) Facts {
	f := Facts{Seq: seq, Zone: w.pick("z", 3), Scheme: "https", Host: w.pick("h", 2), Path: w.path(), Query: w.pick("q", 3), Key: key(w.IntN(30))}
	for range w.IntN(4) {
		f.Tags = append(f.Tags, w.pick("t", 30))
		f.Groups = append(f.Groups, w.pick("t", 30))
	}
	f.AllTags = w.IntN(20) == 0
	return f
}

func (w world) selector() Selector {
	f := w.facts(0)
	s := Selector{Kind: Kind(1 + w.IntN(int(kindEnd)-1)), Zone: f.Zone, Soft: w.IntN(3) == 0}
	if s.Kind <= Host && w.IntN(4) > 0 {
		s.Kind = Tag
	}
	switch s.Kind {
	case Everything:
		s.Zone = ""
	case Host:
		s.Host = f.Host
	case URL:
		s.Host, s.Path = f.Host, f.Path
	case ExactURL:
		s.Host, s.Path, s.Query = f.Host, f.Path, f.Query
	case Prefix:
		s.Host, s.Path = f.Host, f.Path[:1+w.IntN(len(f.Path))]
	case Tag:
		s.Tag = w.pick("t", 30)
	case Group:
		s.Origin, s.Tag = "https://"+f.Host, w.pick("t", 30)
	case Key:
		s.Key = f.Key
	}
	return s
}

// Random programs. Without overflow the list says exactly what the naive one does;
// with it, it never says less.
func TestModel(t *testing.T) {
	var folded uint64
	for seed := range uint64(150) {
		w := world{rand.New(rand.NewPCG(seed, 7))}
		most := []int{0, 1, 5, 40}[seed%4]
		var stored []Facts
		var subjects []*Subject
		o := Options{MaxTombstones: most}
		l := mustNew(t, o)
		var model naive
		for range 400 {
			switch w.IntN(5) {
			case 4: // by visitors; it counts against nothing
				f := w.facts(0)
				s := Selector{Kind: ExactURL, Zone: f.Zone, Host: f.Host, Path: f.Path, Query: f.Query}
				target := Target{Zone: f.Zone, Host: f.Host, Path: f.Path, Query: f.Query}
				switch w.IntN(4) {
				case 0:
					s, target = Selector{Kind: Key, Key: f.Key}, Target{Key: f.Key}
				case 1:
					s = Selector{Kind: Group, Zone: f.Zone, Origin: "https://" + f.Host, Tag: w.pick("t", 30)}
					target = Target{Zone: s.Zone, Origin: s.Origin, Group: s.Tag}
				}
				model = append(model, tombstone{s, mustInvalidate(t, l, target).Seq})
			case 0:
				s := w.selector()
				res := mustAdd(t, l, s, s)
				model = append(model, tombstone{s, res.Seq})
			case 1:
				f := w.facts(l.Now())
				if len(stored) > 0 { // it may have begun earlier, like another of its zone
					if g := stored[w.IntN(len(stored))]; g.Zone == f.Zone && w.IntN(2) == 0 {
						f.Seq = g.Seq
					}
				}
				stored, subjects = append(stored, f), append(subjects, NewSubject(f))
			default:
				if len(stored) == 0 {
					continue
				}
				i := w.IntN(len(stored))
				want, got := model.check(stored[i]), l.Check(subjects[i])
				require.GreaterOrEqual(t, got, want, "seed %d: %+v", seed, stored[i])
				require.True(t, most > 0 || got == want, "seed %d: %+v", seed, stored[i])
				if got == Gone || w.IntN(30) == 0 {
					last := len(stored) - 1
					stored[i], subjects[i] = stored[last], subjects[last]
					stored, subjects = stored[:last], subjects[:last]
				}
			}
		}
		st := l.Stats()
		if most > 0 {
			require.LessOrEqual(t, st.Tombstones, most)
		}
		folded += st.Folded
	}
	require.NotZero(t, folded)
}
