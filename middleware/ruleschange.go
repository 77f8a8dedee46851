package middleware

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/weirhttp/weir/purge"
)

// rulesRecord is the fingerprint of the rules and of those before them. It's kept
// beside the journal.
type rulesRecord struct {
	path   string // "" without a journal
	now    string
	before string // "" if it isn't known
}

// readRules changes nothing.
func readRules(o *Options, trusted []netip.Prefix) (r rulesRecord, err error) {
	if o.Purge.List.Journal == "" {
		return r, nil
	}
	r.path = o.Purge.List.Journal + ".rules"
	rules := o.Default
	rules.Admission = RouteAdmission{} // it changes no response
	r.now = fingerprint(&rules, o.Targets, inAnyOrder(trusted), o.Purge.TagFields, o.Purge.RulesVersion)
	before, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("middleware: the fingerprint of the rules beside the purge journal: %w", err)
	}
	r.before = string(before)
	return r, nil
}

// inAnyOrder is the same for all lists of the same plain networks.
func inAnyOrder(list []netip.Prefix) []netip.Prefix {
	list = slices.Clone(list)
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// purgeIfRulesChanged purges everything if the rules aren't those by which it was
// stored: what a former process kept under rules that were wrong must not be served
// under the corrected ones. It's the last step of New: one that fails purges nothing.
func (p *purger) purgeIfRulesChanged(log *slog.Logger) {
	r := &p.rules
	if r.path == "" || r.before == r.now {
		return
	}
	log = log.With("journal", p.rules.path)
	switch {
	case r.before != "":
		log.Info("weir: the rules aren't those of the process before; everything that it stored is purged")
	case !p.list.Lost():
		log.Info("weir: the rules of the process before aren't known; everything that it stored is purged")
	}
	// The purge first: should the process end in between, the next one purges again.
	_, err := p.list.Add(context.Background(), purge.Selector{Kind: purge.Everything})
	if err == nil {
		err = r.write()
	}
	if err != nil { // the purge is in effect
		log.Error("weir: that everything was purged because of the rules can't be written down; the next process "+
			"purges again", "err", errors.Join(err, r.forget()))
	}
}

func (r *rulesRecord) write() error {
	if err := os.WriteFile(r.path+".new", []byte(r.now), 0o600); err != nil {
		return err
	}
	return os.Rename(r.path+".new", r.path)
}

// forget makes the next process purge even if it has the rules of the one before this.
// It needs no room on the disk.
func (r *rulesRecord) forget() error {
	if err := os.Remove(r.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fingerprint is a digest of configuration, unexported fields included. Of functions
// only whether they are set counts.
func fingerprint(parts ...any) string {
	var text bytes.Buffer
	for _, p := range parts {
		describe(&text, reflect.ValueOf(p), 0)
	}
	sum := blake3.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:])
}

// maxDepth ends the description of what refers to itself.
const maxDepth = 32

// describe writes all that v holds.
func describe(w *bytes.Buffer, v reflect.Value, depth int) {
	if !v.IsValid() || depth > maxDepth {
		w.WriteString("none;")
		return
	}
	fmt.Fprintf(w, "%s:", v.Type())
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		describe(w, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprintf(w, "%s=", v.Type().Field(i).Name)
			describe(w, v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprintf(w, "%d:", v.Len())
		for i := range v.Len() {
			describe(w, v.Index(i), depth+1)
		}
	case reflect.Map:
		describeMap(w, v, depth)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		fmt.Fprintf(w, "%t;", !v.IsZero())
	case reflect.String:
		fmt.Fprintf(w, "%q;", v.String())
	default:
		fmt.Fprintf(w, "%v;", v) // fmt prints the number or bool in it
	}
}

// describeMap writes a map's entries in an order of their own.
func describeMap(w *bytes.Buffer, m reflect.Value, depth int) {
	entries := make([]string, 0, m.Len())
	for it := m.MapRange(); it.Next(); {
		var e bytes.Buffer
		describe(&e, it.Key(), depth+1)
		describe(&e, it.Value(), depth+1)
		entries = append(entries, e.String())
	}
	slices.Sort(entries)
	fmt.Fprintf(w, "%d:", len(entries))
	for _, e := range entries {
		w.WriteString(e)
	}
}
