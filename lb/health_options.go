package lb

import (
	"fmt"
	"time"
)

// problems collects what is wrong with the settings of one place.
type problems struct {
	place string // put before each field
	list  []error
}

func (p *problems) bad(field string, value any, reason string) {
	p.list = append(p.list, &ConfigError{p.place + field, value, reason})
}

func (p *problems) between(field string, v, low, high int, cure string) {
	if v < low || v > high {
		p.bad(field, v, fmt.Sprintf("must be between %d and %d; %s", low, high, cure))
	}
}

func (p *problems) within(field string, v, low, high time.Duration, cure string) {
	if v < low || v > high {
		p.bad(field, v, fmt.Sprintf("must be between %v and %v; %s", low, high, cure))
	}
}

// setDefault sets what is zero.
func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
