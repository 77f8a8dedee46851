package store

import "math/bits"

// objectOverhead is what an object costs beside its texts and body: the
// Object, its memo, the tier's own entry and its share of the tier's tables. It was
// measured (TestWeightIsHonest).
const objectOverhead = 520

// revivedWeight is what the attachment is counted with that an object from a disk
// gets when it's first used, beside four times its facts: eight bytes for each text
// of at least one, whose length takes another.
const revivedWeight = 256

// Weight is the number of bytes of memory the object is counted with: body,
// header, trailer, key texts and overhead.
func (o *Object) Weight() int64 {
	if o.index != nil {
		return o.index.weight()
	}
	w := objectOverhead + footprint(cap(o.Body)) + o.texts()
	switch {
	case o.Attached != nil:
		w += o.Attached.Weight()
	case len(o.Facts) > 0:
		w += revivedWeight + 4*int64(len(o.Facts))
	}
	return w
}

// texts is the part of the weight that isn't the body's.
func (o *Object) texts() int64 {
	return footprint(len(o.Header)) + footprint(len(o.Trailer)) + footprint(len(o.Selecting)) + footprint(len(o.Facts)) + namesWeight(o.VaryNames)
}

func (x *Index) weight() int64 {
	w := objectOverhead + footprint(cap(x.variants)*len(Key{}))
	for _, set := range x.Sets {
		w += namesWeight(set)
	}
	return w
}

func namesWeight(names []string) int64 {
	w := footprint(16 * len(names))
	for _, n := range names {
		w += footprint(len(n))
	}
	return w
}

// footprint is what the runtime sets aside for an allocation of n bytes, or
// little more: its size classes are an eighth of a power of two apart, and
// beyond 32 KiB it counts pages.
func footprint(n int) int64 {
	if n <= 0 {
		return 0
	}
	step := 8 << 10
	if n <= 32<<10 {
		step = max(8, 1<<bits.Len(uint(n-1))/16)
	}
	return int64((n + step - 1) &^ (step - 1))
}
