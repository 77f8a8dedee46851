package purge

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// The journal is a header of 16 bytes and records. Each record is the length of
// its payload and the checksums of that length and of the payload (CRC-32C, 4
// bytes each, little-endian), then the payload. The length has a checksum of its
// own so that a record cut off by a crash can be told from a damaged one, behind
// which others may be lost.
const (
	journalMagic   = "weirpurg"
	journalVersion = 2
	headerBytes    = 16
	dirtyAt        = 9 // 1 after a purge couldn't be written
	recordHead     = 12
	maxPayload     = 32 << 20
)

// The types of payloads: a byte, then varints, then strings with their length.
const (
	recordGeneration = 'G'
	recordReached    = 'N' // all purges up to this number are before this; a new file ends with it
	recordPurge      = 'P'
	recordPlaces     = 'S' // which table (a byte), the secret of its places, how many there are, and their floors
	recordPlaced     = 'U' // which table (a byte), and invalidations: their numbers and instants, 8 bytes each
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged says that a journal holds what no weir of this version wrote.
var errDamaged = errors.New("the file is damaged or of another version")

// tombstone is a purge as the journal has it.
type tombstone struct {
	sel Selector
	seq uint64
}

// placed is an invalidation as the journal has it.
type placed struct{ id, seq uint64 }

// loaded is what a journal says.
type loaded struct {
	generation uint64 // the highest one seen
	reached    uint64 // the highest number up to which all purges are there; 0 if not even the first of them are
	purges     []tombstone
	places     [tables]*places // with the floors only; nil if none are known
	placed     [tables][]placed
	torn       int // bytes at the end that a crash has left
}

func journalHeader() []byte {
	h := make([]byte, headerBytes)
	copy(h, journalMagic)
	h[8] = journalVersion
	return h
}

// seal writes the head of the record that begins at start and ends with dst.
func seal(dst []byte, start int) []byte {
	head, payload := dst[start:start+recordHead], dst[start+recordHead:]
	binary.LittleEndian.PutUint32(head, uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(head[:4], castagnoli))
	binary.LittleEndian.PutUint32(head[8:], crc32.Checksum(payload, castagnoli))
	return dst
}

func appendGeneration(dst []byte, generation uint64) []byte {
	start := len(dst)
	dst = append(append(dst, make([]byte, recordHead)...), recordGeneration)
	return seal(binary.AppendUvarint(dst, generation), start)
}

func appendReached(dst []byte, seq uint64) []byte {
	start := len(dst)
	dst = append(append(dst, make([]byte, recordHead)...), recordReached)
	return seal(binary.AppendUvarint(dst, seq), start)
}

// appendPurge writes the purges of one call.
func appendPurge(dst []byte, seq uint64, selectors []Selector) []byte {
	start := len(dst)
	dst = append(append(dst, make([]byte, recordHead)...), recordPurge)
	dst = binary.AppendUvarint(dst, seq)
	dst = binary.AppendUvarint(dst, uint64(len(selectors)))
	for i := range selectors {
		dst = appendSelector(dst, &selectors[i])
	}
	return seal(dst, start)
}

// appendPlaces writes all of a table's places.
func appendPlaces(dst []byte, table int, p *places) []byte {
	dst = slices.Grow(dst, 16*p.used+12*len(p.cells)+4*recordHead)
	start := len(dst)
	dst = append(append(dst, make([]byte, recordHead)...), recordPlaces, byte(table))
	for _, half := range p.secret {
		dst = binary.LittleEndian.AppendUint64(dst, half)
	}
	dst = binary.AppendUvarint(dst, uint64(p.bits))
	for i := range p.cells {
		if floor := p.cells[i].floor.Load(); floor > 0 {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(i)), floor)
		}
	}
	dst = seal(dst, start)
	start = len(dst)
	dst = append(append(dst, make([]byte, recordHead)...), recordPlaced, byte(table))
	for i := range p.cells {
		b := &p.cells[i]
		for j := range b.ids {
			if id := b.ids[j].Load(); id != 0 {
				dst = binary.LittleEndian.AppendUint64(dst, id)
				dst = binary.LittleEndian.AppendUint64(dst, b.seqs[j].Load())
			}
		}
	}
	return seal(dst, start)
}

// maxPlaced is how many invalidations one record of a call has at most: however many
// a response names, none is longer than what is read.
const maxPlaced = 1 << 16

// appendPlaced writes the invalidations of one call.
func appendPlaced(dst []byte, seq uint64, set *invalidated) []byte {
	for table, all := range set.ids {
		for ids := range slices.Chunk(all, maxPlaced) {
			start := len(dst)
			dst = append(append(dst, make([]byte, recordHead)...), recordPlaced, byte(table))
			for _, id := range ids {
				dst = binary.LittleEndian.AppendUint64(dst, id)
				dst = binary.LittleEndian.AppendUint64(dst, seq)
			}
			dst = seal(dst, start)
		}
	}
	return dst
}

func appendSelector(dst []byte, s *Selector) []byte {
	soft := byte(0)
	if s.Soft {
		soft = 1
	}
	dst = append(dst, byte(s.Kind), soft)
	for _, v := range [...]string{s.Zone, s.Host, s.Path, s.Query, s.Origin, s.Tag} {
		dst = append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	}
	if s.Kind == Key {
		dst = append(dst, s.Key[:]...)
	}
	return dst
}

// parseJournal reads a whole file. It returns what is intact even if it fails.
func parseJournal(file []byte) (loaded, error) {
	var out loaded
	if len(file) < headerBytes || string(file[:8]) != journalMagic || file[8] != journalVersion {
		return out, errDamaged
	}
	dirty := file[dirtyAt] != 0
	for rest := file[headerBytes:]; len(rest) > 0; {
		if len(rest) < recordHead {
			out.torn = len(rest)
			break
		}
		n := binary.LittleEndian.Uint32(rest)
		if binary.LittleEndian.Uint32(rest[4:]) != crc32.Checksum(rest[:4], castagnoli) || n > maxPayload {
			return out, errDamaged
		}
		if len(rest) < recordHead+int(n) {
			out.torn = len(rest)
			break
		}
		payload := rest[recordHead : recordHead+int(n)]
		if binary.LittleEndian.Uint32(rest[8:]) != crc32.Checksum(payload, castagnoli) || !out.payload(payload) {
			return out, errDamaged
		}
		rest = rest[recordHead+int(n):]
	}
	if dirty {
		return out, errors.New("a purge couldn't be written to it")
	}
	if out.reached == 0 {
		return out, errDamaged
	}
	return out, nil
}

// payload reads one payload and reports whether it is whole.
func (out *loaded) payload(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	p := payload{rest: b[1:]}
	switch b[0] {
	case recordGeneration:
		generation := p.number()
		return generation < maxGeneration && out.reach(generation<<generationBits) && !p.bad && len(p.rest) == 0
	case recordReached:
		seq := p.number()
		out.reached = max(out.reached, seq)
		return out.reach(seq) && !p.bad && len(p.rest) == 0
	case recordPurge:
		seq, n := p.number(), p.number()
		if !out.reach(seq) {
			return false
		}
		for range n {
			s, ok := p.selector()
			if !ok {
				return false
			}
			out.purges = append(out.purges, tombstone{s, seq})
		}
	case recordPlaces:
		if !out.readPlaces(&p) {
			return false
		}
	case recordPlaced:
		table := p.table()
		for len(p.rest) > 0 {
			v := placed{p.fixed(), p.fixed()}
			if p.bad || v.id == 0 || !out.reach(v.seq) {
				return false
			}
			out.placed[table] = append(out.placed[table], v)
		}
	default:
		return false
	}
	return !p.bad && len(p.rest) == 0
}

func (out *loaded) readPlaces(p *payload) bool {
	table, secret, size := p.table(), [2]uint64{p.fixed(), p.fixed()}, p.number()
	if p.bad || size < fewestBits || size > mostBits || out.places[table] != nil {
		return false
	}
	out.places[table] = newPlaces(secret, uint8(size))
	for len(p.rest) > 0 {
		i, seq := p.number(), p.number()
		if p.bad || i >= 1<<size || !out.reach(seq) {
			return false
		}
		raise(&out.places[table].cells[i].floor, seq)
		raise(&out.places[table].newest, seq)
	}
	return true
}

func (out *loaded) reach(seq uint64) bool {
	generation := seq >> generationBits
	if generation >= maxGeneration-1 {
		return false
	}
	out.generation = max(out.generation, generation)
	if out.reached > 0 {
		out.reached = max(out.reached, seq)
	}
	return true
}

// payload is what is left to read of one.
type payload struct {
	rest []byte
	bad  bool
}

func (p *payload) number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *payload) fixed() uint64 {
	if b := p.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// table reads which table a record is about.
func (p *payload) table() int {
	b := p.bytes(1)
	if b == nil || b[0] >= tables {
		p.bad, p.rest = true, nil
		return 0
	}
	return int(b[0])
}

func (p *payload) bytes(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

// selector reads a selector and refuses those that aren't canonical.
func (p *payload) selector() (Selector, bool) {
	var s Selector
	if b := p.bytes(2); b != nil {
		s.Kind, s.Soft = Kind(b[0]), b[1] == 1
	}
	for _, v := range [...]*string{&s.Zone, &s.Host, &s.Path, &s.Query, &s.Origin, &s.Tag} {
		*v = string(p.bytes(p.number()))
	}
	if s.Kind == Key {
		copy(s.Key[:], p.bytes(uint64(len(s.Key))))
	}
	if p.bad {
		return s, false
	}
	again, err := s.Canonical()
	return s, err == nil && again == s
}
