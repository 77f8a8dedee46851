package admission

// Token stands for a request that [Overload.Enter] let in. Pass it by value. The
// zero value is none.
type Token struct {
	o    *Overload
	slot uint32
	gen  uint32
}

// Leave tells that the request's response has ended. Only the first call on a
// token or any copy of it does something. It never blocks.
func (t Token) Leave() {
	if t.o != nil {
		t.o.leave(t)
	}
}

// entered is what a token stands for.
type entered struct {
	share *share // nil unless it is a tenant's
	probe bool
}
