package middleware

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/weirhttp/weir/purge"
)

// purgeIfRulesChanged purges everything if the rules aren't those by which it was
// stored: what a former process kept under rules that were wrong must not be served
// under the corrected ones. The rules' fingerprint is kept beside the journal.
func (p *purger) purgeIfRulesChanged(o *Options) error {
	if o.Purge.List.Journal == "" {
		return nil
	}
	path := o.Purge.List.Journal + ".rules"
	rules := o.Default
	rules.Admission = RouteAdmission{} // it changes no response
	now := fingerprint(&rules, o.Targets, o.TrustedProxies, o.Purge.TagFields, o.Purge.RulesVersion)
	before, err := os.ReadFile(path)
	switch {
	case err == nil && string(before) == now:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("middleware: the fingerprint of the rules beside the purge journal: %w", err)
	}
	// The purge first: should the process end in between, the next one purges again.
	_, err = p.list.Add(context.Background(), purge.Selector{Kind: purge.Everything})
	if errors.Is(err, purge.ErrNotDurable) {
		return nil // it's in effect, and the next process purges again
	} else if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(now), 0o600); err != nil {
		return fmt.Errorf("middleware: the fingerprint of the rules beside the purge journal: %w", err)
	}
	return os.Rename(path+".new", path)
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
