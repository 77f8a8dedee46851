package lb

// tally turns the results of checks into healthy or not.
type tally struct {
	up    bool
	known bool // there was a result
	// contrary is how many results in a row contradict up. One that agrees makes
	// it 0, so only consecutive ones count.
	contrary int
}

// note takes a result in. The first one decides at once: nothing is known that it
// could be weighed against. changed is true if up is another than before.
func (t *tally) note(passed bool, rise, fall int) (changed bool) {
	if passed == t.up {
		t.known, t.contrary = true, 0
		return false
	}
	t.contrary++
	need := fall
	if passed {
		need = rise
	}
	if t.known && t.contrary < need {
		return false
	}
	*t = tally{up: passed, known: true}
	return true
}

// turning reports whether a change may be under way.
func (t *tally) turning() bool { return t.contrary > 0 }
