package guard

// work counts the operations that run.
type work struct {
	all       slots
	unknown   slots
	providers map[string]*slots
}

// slots is a number of operations that run.
type slots struct{ used int }

// slotsOf returns the count of a provider, or a new one.
func (g *Guard) slotsOf(provider string) *slots {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.work.providers[provider]; s != nil {
		return s
	}
	return new(slots)
}

// keep makes these the providers that are counted, besides those for which
// something runs.
func (w *work) keep(providers map[string]*slots) {
	for name, s := range w.providers {
		if providers[name] == nil && s.used > 0 {
			providers[name] = s
		}
	}
	w.providers = providers
}

// room says whether one more operation may run for a class; nil for unknown.
func (w *work) room(limit Work, c *class) Reason {
	switch {
	case c != nil && c.slots.used >= c.work:
		return WorkProvider
	case c == nil && w.unknown.used >= limit.Unknown:
		return WorkUnknown
	case w.all.used >= limit.Global:
		return WorkGlobal
	case w.all.used >= limit.Local:
		return WorkLocal
	}
	return Admitted
}

// of returns the slots that an operation of a class counts in besides all.
func (w *work) of(c *class) *slots {
	if c == nil {
		return &w.unknown
	}
	return c.slots
}
