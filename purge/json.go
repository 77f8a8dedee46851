package purge

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// readCall decodes the body of a POST. Everything is refused that isn't understood
// in full.
func (h *Handler) readCall(w http.ResponseWriter, r *http.Request) ([]Selector, answer) {
	// A page on another site can't send this type without asking first.
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, refuse(http.StatusRequestEntityTooLarge,
				fmt.Sprintf("the body is longer than %d bytes: split the call; nothing was purged", MaxBodyBytes))
		}
		return nil, refuse(http.StatusBadRequest, "the body can't be read")
	}
	var call struct {
		Purge []json.RawMessage `json:"purge"`
	}
	if err := strict(body, &call); err != nil {
		return nil, refuse(http.StatusBadRequest, "not a call: "+clip(err.Error()))
	}
	switch n := len(call.Purge); {
	case n == 0:
		return nil, refuse(http.StatusBadRequest, `"purge" lists no selectors`)
	case n > MaxSelectors:
		return nil, refuse(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("%d selectors, %d are allowed in one call: split it, or purge by prefix, tag or zone; nothing was purged",
				n, MaxSelectors))
	}
	selectors := make([]Selector, len(call.Purge))
	var wrong []SelectorError
	for i, raw := range call.Purge {
		s, e := decodeSelector(raw)
		if e != nil {
			e.Index = i
			wrong = append(wrong, *e)
		}
		selectors[i] = s
	}
	if len(wrong) > 0 {
		return nil, refuseSelectors(http.StatusBadRequest, wrong)
	}
	return selectors, answer{}
}

// strict decodes a JSON object that has no unknown fields, none twice and none in
// another case, and nothing behind it. encoding/json alone would take the last of
// several.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it must be an object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if seen[name] || name != lowerASCII(name) {
			return errors.New("unknown or repeated field " + clip(name))
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the object")
	}
	d = json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// wireSelector is a selector as the JSON interface has it.
type wireSelector struct {
	Kind   string `json:"kind"`
	Zone   string `json:"zone"`
	URL    string `json:"url"`
	Host   string `json:"host"`
	Path   string `json:"path"`
	Query  string `json:"query"`
	Origin string `json:"origin"`
	Tag    string `json:"tag"`
	Key    string `json:"key"`
	Soft   bool   `json:"soft"`
}

func decodeSelector(raw []byte) (Selector, *SelectorError) {
	var in wireSelector
	if err := strict(raw, &in); err != nil {
		return Selector{}, &SelectorError{Field: "selector", Reason: clip(err.Error())}
	}
	s := Selector{
		Zone: in.Zone, Host: in.Host, Path: in.Path, Query: in.Query,
		Origin: in.Origin, Tag: in.Tag, Soft: in.Soft,
	}
	if err := s.Kind.UnmarshalText([]byte(in.Kind)); err != nil {
		return s, &SelectorError{Field: "kind", Reason: strings.TrimPrefix(err.Error(), "purge: ")}
	}
	if in.Key != "" {
		key, err := hex.DecodeString(in.Key)
		if err != nil || len(key) != len(s.Key) {
			return s, &SelectorError{Field: "key", Reason: "a key has 64 hexadecimal digits"}
		}
		s.Key = [32]byte(key)
	}
	if in.URL != "" {
		if in.Host != "" || in.Path != "" || in.Query != "" {
			return s, &SelectorError{Field: "url", Reason: "stands for host, path and query: leave those out"}
		}
		if e := s.fromURL(in.URL); e != nil {
			return s, e
		}
	}
	return s, nil
}

// fromURL fills in those of host, path and query that the kind uses. A URL kind
// drops the query, because it covers any; for others one is an error.
func (s *Selector) fromURL(text string) *SelectorError {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(text, "#") {
		return &SelectorError{Field: "url",
			Reason: "not an absolute http or https URL without user and fragment"}
	}
	s.Host, s.Path = u.Host, u.EscapedPath()
	if s.Path == "" {
		s.Path = "/"
	}
	if s.Kind != URL {
		s.Query = u.RawQuery
	}
	if s.Kind == Host && s.Path == "/" {
		s.Path = ""
	}
	return nil
}

// state is [Stats] in JSON. Numbers that JavaScript can't hold are strings.
type state struct {
	Now         string          `json:"now"`
	Generation  uint64          `json:"generation"`
	Tombstones  int             `json:"tombstones"`
	Kinds       map[string]int  `json:"kinds"`
	Everything  string          `json:"everything_before"`
	Added       uint64          `json:"added"`
	Merged      uint64          `json:"merged"`
	Folded      uint64          `json:"folded"`
	Invalidated uint64          `json:"invalidated"`
	Targets     int             `json:"targets"`
	Groups      int             `json:"groups"`
	Forgotten   uint64          `json:"forgotten"`
	Queued      int             `json:"queued"`
	Backlog     map[string]int  `json:"backlog"`
	Lost        bool            `json:"lost"`
	Journal     *journalOfState `json:"journal,omitempty"`
}

type journalOfState struct {
	Bytes   int64 `json:"bytes"`
	Failing bool  `json:"failing"`
}

func newState(s Stats) state {
	out := state{
		Now: strconv.FormatUint(s.Now, 10), Generation: s.Now >> generationBits, Tombstones: s.Tombstones,
		Kinds: map[string]int{}, Everything: strconv.FormatUint(s.Everything, 10),
		Added: s.Added, Merged: s.Merged, Folded: s.Folded, Invalidated: s.Invalidated, Targets: s.Targets, Groups: s.Groups, Forgotten: s.Forgotten,
		Queued: s.Queued, Backlog: s.Backlog, Lost: s.Lost,
	}
	for k, n := range s.Kinds {
		out.Kinds[k.String()] = n
	}
	if s.Journaled {
		out.Journal = &journalOfState{s.JournalBytes, s.JournalFailed}
	}
	return out
}
