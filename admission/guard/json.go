package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxPolicyBytes is how long the JSON of a policy may be.
const MaxPolicyBytes = 1 << 20

// ParsePolicy reads a policy from JSON and validates it at now. What isn't
// understood in full is refused: unknown fields, fields that come twice or in
// another case, and anything behind the object.
func ParsePolicy(data []byte, now time.Time) (Policy, error) {
	if len(data) > MaxPolicyBytes {
		return Policy{}, fmt.Errorf("guard: the policy is longer than %d bytes", MaxPolicyBytes)
	}
	if err := uniqueFields(data); err != nil {
		return Policy{}, fmt.Errorf("guard: not a policy: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var p Policy
	if err := d.Decode(&p); err != nil {
		return Policy{}, fmt.Errorf("guard: not a policy: %w", err)
	}
	p = p.clone()
	if err := p.Validate(now); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// uniqueFields checks that data is one JSON object whose fields, and those of all
// objects in it, come once, in lower case and in ASCII. encoding/json takes the
// last of several, and isn't strict about case.
func uniqueFields(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		fields map[string]bool // nil in an array
		value  bool            // a field's value comes next
	}
	var stack []level
	for first := true; first || len(stack) > 0; first = false {
		t, err := d.Token()
		if err != nil {
			return err
		}
		if first && t != json.Delim('{') {
			return errors.New("it must be an object")
		}
		var top *level
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		if t == json.Delim('}') || t == json.Delim(']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if top != nil && top.fields != nil && !top.value {
			name, _ := t.(string)
			if top.fields[name] || !plainName(name) {
				return fmt.Errorf("unknown or repeated field %.40q", name)
			}
			top.fields[name], top.value = true, true
			continue
		}
		if top != nil {
			top.value = false
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, level{fields: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, level{})
		case nil:
			return errors.New("null isn't a value here; leave the field out")
		}
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}
