package purge

import (
	"math/bits"
	"sync/atomic"
)

// places remember invalidations by 64-bit numbers (see invalidate.go), so many
// that visitors may cause them. Each number has one cell, found by a secret; a
// cell that is full makes all of them twice as many, or, when there are the most
// that there may be, forgets its oldest number and keeps that one's instant as its
// floor: what is of this cell and was fetched before is invalid. So what one
// number costs others is bounded by the share of one cell.
//
// One writer at a time; any number of readers look up meanwhile without a lock.
type places struct {
	secret [2]uint64
	bits   uint8 // there are 1<<bits cells
	most   uint8 // bits doesn't grow beyond this
	cells  []cell
	newest atomic.Uint64 // the newest instant of all

	used      int    // the writer's
	forgotten uint64 // the writer's
}

// The sizes of places: 64 cells are 8 KiB, 65,536 are 8 MiB and remember up to
// 458,752 numbers. While 100,000 are invalidated, an unrelated one suffers with a
// probability of 2 in 10,000.
//
// URLs and keys have places of their own, and groups have: neither costs the others
// room, nor checks a look-up while none of its kind was invalidated.
const (
	ofURLs = iota
	ofGroups
	tables

	cellRoom   = 7
	fewestBits = 6
	mostBits   = 16
)

// cell is two lines of the processor's cache, of which most checks need one. A
// place is free while its id is 0.
type cell struct {
	floor atomic.Uint64
	ids   [cellRoom]atomic.Uint64
	seqs  [cellRoom]atomic.Uint64
	_     [8]byte
}

func newPlaces(secret [2]uint64, bits uint8) *places {
	return &places{secret: secret, bits: bits, most: mostBits, cells: make([]cell, 1<<bits)}
}

func (p *places) cell(id uint64) *cell {
	hi, lo := bits.Mul64(id^p.secret[0], p.secret[1]|1)
	hi, lo = bits.Mul64(hi^lo^p.secret[1], p.secret[0]|1)
	return &p.cells[(hi^lo)>>(64-p.bits)]
}

// later reports whether id, or something that can't be told from it, was
// invalidated later than low.
func (p *places) later(id, low uint64) bool {
	b := p.cell(id)
	for i := range b.ids {
		if b.ids[i].Load() == id {
			// If the writer is just giving the place away, that's newer.
			return b.seqs[i].Load() > low
		}
	}
	// After the ids: the floor is raised before an id is overwritten.
	return b.floor.Load() > low
}

// with notes that id was invalidated at seq and returns p, or the larger places
// that have taken its place. Readers must get those before they learn of seq.
func (p *places) with(id, seq uint64) *places {
	for {
		b := p.cell(id)
		free, oldest := -1, 0
		for i := range b.ids {
			switch b.ids[i].Load() {
			case id:
				raise(&b.seqs[i], seq)
				raise(&p.newest, seq)
				return p
			case 0:
				free = i
			}
			if b.seqs[i].Load() < b.seqs[oldest].Load() {
				oldest = i
			}
		}
		switch {
		case free >= 0:
			p.used++
			b.set(free, id, seq)
		case p.bits < p.most:
			p = p.grown()
			continue
		case seq <= b.seqs[oldest].Load(): // only while a journal is read
			p.forgotten++
			raise(&b.floor, seq)
		default:
			p.forgotten++
			raise(&b.floor, b.seqs[oldest].Load())
			b.set(oldest, id, seq)
		}
		raise(&p.newest, seq)
		return p
	}
}

// set gives a place to id. The id is written last.
func (b *cell) set(i int, id, seq uint64) {
	b.seqs[i].Store(seq)
	b.ids[i].Store(id)
}

// grown returns a copy with twice as many cells.
func (p *places) grown() *places {
	g := newPlaces(p.secret, p.bits+1)
	g.most = p.most
	g.newest.Store(p.newest.Load())
	g.used, g.forgotten = p.used, p.forgotten
	for i := range p.cells {
		from := &p.cells[i]
		for half := range 2 {
			g.cells[2*i+half].floor.Store(from.floor.Load())
		}
		for j := range from.ids {
			if id := from.ids[j].Load(); id != 0 {
				to := g.cell(id)
				for k := range to.ids {
					if to.ids[k].Load() == 0 {
						to.set(k, id, from.seqs[j].Load())
						break
					}
				}
			}
		}
	}
	return g
}
