package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// What decodes is written and read again as the same.
func FuzzFields(f *testing.F) {
	f.Add(encodeFields(object(key(1), nil), 1), false)
	f.Add(encodeFields(variant(key(1), key(2), nil, "accept", "cookie"), 2), true)
	f.Fuzz(func(t *testing.T, b []byte, varies bool) {
		h := head{bodyLen: 5}
		if varies {
			h.key[0] = 1
		}
		o, lineage, err := decodeFields(&h, b)
		if err != nil {
			return
		}
		first := encodeFields(o, lineage)
		again, lineage2, err := decodeFields(&h, first)
		require.NoError(t, err)
		require.Equal(t, lineage, lineage2)
		require.Equal(t, first, encodeFields(again, lineage2))
	})
}

func FuzzRecord(f *testing.F) {
	r := &store.Record{Lineage: 7}
	r, _ = r.With(key(1), []string{"accept"}, 9)
	f.Add(encodeRecord(r))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		again, err := decodeRecord(encodeRecord(r))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

// The checksums are made right, so that what lies behind them is reached.
func FuzzHeads(f *testing.F) {
	h := head{blockLog: blockLog, seq: 1, fieldsAt: bodyAt + 10 + 4, fieldsLen: 3, fieldsCap: 3, bodyLen: 10}
	f.Add(append(h.encode(), make([]byte, slotSize)...))
	h.seq = 2
	f.Add(append(h.encode(), h.encode()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= bodyAt {
			sign(b)
			if !bytes.Equal(b[slotSize:bodyAt], make([]byte, slotSize)) {
				sign(b[slotSize:])
			}
		}
		hs, err := decodeHeads(b)
		if err != nil {
			return
		}
		require.Equal(t, hs.bodyLen, min(max(hs.bodyLen, 0), maxBody))
		require.GreaterOrEqual(t, hs.fieldsAt, hs.tableAt()+int64(hs.tableLen()))
		again, err := decodeSlot(hs.encode())
		require.NoError(t, err)
		require.Equal(t, hs.head, again)
	})
}

func sign(b []byte) {
	b[12], b[13], b[14], b[15] = le32(checksum(b[:12]))
	b[124], b[125], b[126], b[127] = le32(checksum(b[:124]))
}

func le32(v uint32) (a, b, c, d byte) { return byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24) }

// A whole file of anything is a miss, or an object that reads to its end.
func FuzzFile(f *testing.F) {
	d := openTier(f, Options{})
	k := key(1)
	d.Put(object(k, []byte("the body")))
	whole, err := os.ReadFile(d.files.path(&k))
	require.NoError(f, err)
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(d.files.path(&k)), 0o700))
		require.NoError(t, os.WriteFile(d.files.path(&k), b, 0o600))
		var v version
		if hs, err := decodeHeads(b); err == nil {
			v.nonce = hs.nonce // another's would be a file that isn't ours
		}
		d.index.set(&k, v, 0)
		got, ok := bodyOf(d, k)
		if ok {
			require.Equal(t, "the body", string(got))
		}
		if bytes.Equal(whole, b) {
			require.True(t, ok)
		}
	})
}
