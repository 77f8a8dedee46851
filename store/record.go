package store

// Record is an [Index] in the form in which it leaves the process: a tier that
// survives it keeps one for each primary key whose responses vary.
type Record struct {
	// Sets are the Index's sets of selecting header fields, most recent first.
	Sets [][]string
	// Variants are the variants' keys in the order of storing, oldest first.
	Variants []Key
	// Lineage must be kept with each variant. A variant of another lineage
	// than its primary key's record was stored before the primary key was
	// purged or replaced, and must not be found again.
	Lineage uint64
}

// With returns a copy of r that also knows variant k with the given names, and
// the variants that fell out by the bound on their number.
func (r *Record) With(k Key, names []string, maxVariants int) (next *Record, dropped []Key) {
	x, dropped := (&Index{Sets: r.Sets, variants: r.Variants, lineage: new(lineage)}).with(k, names, maxVariants)
	return &Record{Sets: x.Sets, Variants: x.variants, Lineage: r.Lineage}, dropped
}

// Object returns r as what the primary key leads to, like the memory tier's
// own records: a [Store] takes it for an Index.
func (r *Record) Object(primary Key) *Object {
	return &Object{Key: primary, Primary: primary,
		index: &Index{Sets: r.Sets, variants: r.Variants, lineage: new(lineage)}}
}

// IsIndex reports whether o is not a response but the record that leads from a
// primary key to its variants.
func (o *Object) IsIndex() bool { return o.index != nil }

// Sets returns the sets of selecting header fields of such a record.
func (o *Object) Sets() [][]string {
	if o.index == nil {
		return nil
	}
	return o.index.Sets
}
