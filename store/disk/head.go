package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/weirhttp/weir/store"
)

// The layout of a file; all numbers are little-endian.
//
//	0            head A, 128 bytes
//	128          head B, 128 bytes, zero until the fields are written anew
//	256          body
//	256+len      table: the CRC-32C of each block of the body, 4 bytes each
//	...          fields, wherever the head says
//
// Of two heads the one with the higher number counts. New fields for the same
// body go where the older head's fields are, or to the end, and then their
// head is written over the older one: one write within one sector.
const (
	magic     = "weirobj\x00"
	format    = 1
	slotSize  = 128
	bodyAt    = 2 * slotSize
	blockLog  = 17 // 128 KiB
	maxFields = 4 << 20
	maxBody   = 1 << 40
)

// What a file holds.
const (
	kindObject = 0
	kindRecord = 1
)

var (
	// errCorrupt says that a file isn't one that this package has written.
	errCorrupt = errors.New("disk: file is damaged")
	// errVersion says that it has been written by another version.
	errVersion = errors.New("disk: file of another version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// blockSeed is what the checksum of a block starts from: a block in the wrong
// place or of another file doesn't pass either.
func blockSeed(nonce uint64, block int64) uint32 {
	x := (nonce ^ uint64(block)) * 0x9e3779b97f4a7c15
	return uint32(x >> 32)
}

func blockChecksum(nonce uint64, block int64, p []byte) uint32 {
	return crc32.Update(blockSeed(nonce, block), castagnoli, p)
}

// head is one of a file's two heads.
type head struct {
	kind      uint8
	blockLog  uint8
	seq       uint32 // 1 for the first, then one more each time
	fieldsLen uint32
	fieldsCap uint32 // room for fields where these are
	fieldsAt  int64
	bodyLen   int64
	nonce     uint64 // tells this body from all others that have had the key
	key       store.Key
	primary   store.Key
	fieldsSum uint32
	tableSum  uint32
}

func (h *head) blocks() int64 {
	return (h.bodyLen + 1<<h.blockLog - 1) >> h.blockLog
}

func (h *head) tableAt() int64 { return bodyAt + h.bodyLen }
func (h *head) tableLen() int  { return int(4 * h.blocks()) }

// end is the least length that the file must have.
func (h *head) end() int64 { return h.fieldsAt + int64(h.fieldsLen) }

func (h *head) encode() []byte {
	b := make([]byte, slotSize)
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint16(b[8:], format)
	b[10], b[11] = h.kind, h.blockLog
	le.PutUint32(b[12:], checksum(b[:12]))
	le.PutUint32(b[16:], h.seq)
	le.PutUint32(b[20:], h.fieldsLen)
	le.PutUint64(b[24:], uint64(h.fieldsAt))
	le.PutUint64(b[32:], uint64(h.bodyLen))
	le.PutUint64(b[40:], h.nonce)
	copy(b[48:], h.key[:])
	copy(b[80:], h.primary[:])
	le.PutUint32(b[112:], h.fieldsSum)
	le.PutUint32(b[116:], h.tableSum)
	le.PutUint32(b[120:], h.fieldsCap)
	le.PutUint32(b[124:], checksum(b[:124]))
	return b
}

// decodeSlot reads one head. The version stands apart with a checksum of its
// own, so that damage isn't taken for another version.
func decodeSlot(b []byte) (h head, err error) {
	le := binary.LittleEndian
	if len(b) < slotSize || string(b[:8]) != magic || le.Uint32(b[12:]) != checksum(b[:12]) {
		return h, errCorrupt
	}
	if le.Uint16(b[8:]) != format {
		return h, errVersion
	}
	if le.Uint32(b[124:]) != checksum(b[:124]) {
		return h, errCorrupt
	}
	h = head{
		kind: b[10], blockLog: b[11], seq: le.Uint32(b[16:]),
		fieldsLen: le.Uint32(b[20:]), fieldsCap: le.Uint32(b[120:]),
		fieldsAt: int64(le.Uint64(b[24:])), bodyLen: int64(le.Uint64(b[32:])),
		nonce: le.Uint64(b[40:]), key: store.Key(b[48:80]), primary: store.Key(b[80:112]),
		fieldsSum: le.Uint32(b[112:]), tableSum: le.Uint32(b[116:]),
	}
	switch {
	case h.kind > kindRecord, h.blockLog < 12 || h.blockLog > 24,
		h.bodyLen < 0 || h.bodyLen > maxBody,
		h.fieldsLen > h.fieldsCap || h.fieldsCap > maxFields,
		h.fieldsAt < h.tableAt()+int64(h.tableLen()) || h.fieldsAt > 2*maxBody,
		h.kind == kindRecord && (h.bodyLen != 0 || h.key != h.primary):
		return head{}, errCorrupt
	}
	return h, nil
}

// heads are what the first 256 bytes of a file say.
type heads struct {
	head
	slot  int  // which of the two counts
	other head // the older one; seq is 0 if there has only been one
}

// decodeHeads reads both heads. One that is damaged damns the file: then it
// can't be said which one counts.
func decodeHeads(b []byte) (hs heads, err error) {
	if len(b) < bodyAt {
		return hs, errCorrupt
	}
	a, err := decodeSlot(b[:slotSize])
	if err != nil {
		return hs, err
	}
	if [slotSize]byte(b[slotSize:bodyAt]) == [slotSize]byte{} {
		return heads{head: a}, nil
	}
	o, err := decodeSlot(b[slotSize:bodyAt])
	if err != nil {
		return hs, err
	}
	if a.key != o.key || a.primary != o.primary || a.nonce != o.nonce || a.bodyLen != o.bodyLen ||
		a.kind != o.kind || a.tableSum != o.tableSum || a.blockLog != o.blockLog {
		return hs, errCorrupt
	}
	switch a.seq {
	case o.seq + 1:
		return heads{head: a, other: o}, nil
	case o.seq - 1:
		return heads{head: o, slot: 1, other: a}, nil
	}
	return hs, errCorrupt
}
