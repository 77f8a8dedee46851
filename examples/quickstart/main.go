// Command quickstart shows what weir does, in ten seconds and with nothing
// else installed: it starts an origin whose pages take a second to render, and
// weir before it, sends visitors, and counts what reaches the origin.
//
//	go run ./examples/quickstart          # the show, then try it yourself
//	go run ./examples/quickstart -once    # only the show; exit status 1 if a figure is off
//	go run ./examples/quickstart -once -json
//
// How weir is put before a handler is in cache.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: quickstart [-once] [-json]

Starts a slow origin, and weir before it, and shows what weir does.

  -once   end after the show; the exit status is 1 if a figure isn't as stated
  -json   print the figures as one JSON object instead of text
`

// The exit statuses.
const (
	exitOK    = 0
	exitOff   = 1 // a figure wasn't as stated, or the show couldn't be given
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, defaultPlan())
	stop()
	os.Exit(code)
}

type flags struct {
	once, json bool
}

func parse(args []string) (flags, error) {
	var f flags
	fs := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run says it, in one line
	fs.BoolVar(&f.once, "once", false, "")
	fs.BoolVar(&f.json, "json", false, "")
	if err := fs.Parse(args); err != nil {
		return f, err
	}
	if fs.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return f, nil
}

// run is the command. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, p plan) int {
	f, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "quickstart: %v; the flags are -once and -json\n", err)
		return exitUsage
	}
	if err := give(ctx, f, stdout, stderr, p); err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return exitOff
	}
	return exitOK
}

// give gives the show and, without -once, goes on serving until ctx ends.
func give(ctx context.Context, f flags, stdout, stderr io.Writer, p plan) (err error) {
	s, err := newStage(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	screen := stdout
	if f.json {
		screen = io.Discard
	}
	fmt.Fprint(screen, s.intro())
	r := s.play(ctx, func(sc scene) {
		if ctx.Err() == nil {
			fmt.Fprint(screen, sc)
		}
	})
	if ctx.Err() != nil {
		return errors.New("interrupted before the end of the show")
	}
	if f.json {
		if err := r.writeJSON(stdout); err != nil {
			return err
		}
		screen = stderr // nothing else goes to standard output
	} else {
		fmt.Fprint(screen, r.conclusion())
	}
	if !f.once {
		fmt.Fprint(screen, s.invitation())
		<-ctx.Done()
	}
	if !r.OK {
		return fmt.Errorf("not as stated: %s", strings.Join(r.Off, "; "))
	}
	return nil
}
