package top

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/survey"
)

// ErrTerminal means that there is no terminal to draw on, or to read keys from.
var ErrTerminal = &millrace.Error{
	Code: "bad_terminal", Message: "millrace top needs a terminal, for its screen and for keys",
	Hint: "Elsewhere print numbers again and again with: millrace queue stats NAME --watch, for programs with --json",
}

// Config configures a view. It needs a Client, an Input and an Output.
type Config struct {
	// Client is the connection to Redis. The caller closes it.
	Client rueidis.Client

	// Fleet is the fleet of that client. Defaults to none.
	Fleet *fleet.Fleet

	// Interval is the time between looks at Redis. Defaults to 2 s.
	Interval time.Duration

	// ReadOnly refuses all actions.
	ReadOnly bool

	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer

	// Note enters an action in the audit log, with the error if it failed. Defaults to not at all.
	Note func(ctx context.Context, e audit.Entry, failed error)

	// Env looks up variables of the environment, such as TERM and NO_COLOR. Defaults to os.Getenv.
	Env func(string) string
}

// Check returns ErrTerminal unless both are a terminal.
func Check(in io.Reader, out io.Writer) error {
	for _, end := range []any{in, out} {
		if f, ok := end.(*os.File); !ok || !term.IsTerminal(f.Fd()) {
			return ErrTerminal
		}
	}
	return nil
}

// Run shows the view until q is pressed, which returns nil, or ctx ends, which returns its
// cause.
func Run(ctx context.Context, cfg Config) error {
	if err := Check(cfg.Input, cfg.Output); err != nil {
		return err
	}
	s, err := survey.New(survey.Config{Client: cfg.Client, Fleet: cfg.Fleet, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if cfg.Interval == 0 {
		cfg.Interval = 2 * time.Second
	}
	if cfg.Note == nil {
		cfg.Note = func(context.Context, audit.Entry, error) {}
	}
	if cfg.Env == nil {
		cfg.Env = os.Getenv
	}
	outer := ctx
	ctx, stop := context.WithCancel(ctx)
	var listing sync.WaitGroup
	defer listing.Wait()
	defer stop() // a look that is under way, too
	listing.Go(func() { s.KeepListing(ctx) })
	m := newModel(&redisSource{ctx, cfg.Client, s, cfg.Note}, time.Now(), cfg.Interval, cfg.ReadOnly)
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(cfg.Input), tea.WithOutput(cfg.Output),
		tea.WithEnvironment(environment(cfg.Env)), tea.WithoutSignalHandler()).Run()
	switch {
	case outer.Err() != nil:
		return context.Cause(outer)
	case errors.Is(err, tea.ErrInterrupted):
		return nil
	}
	return err
}

// environment returns the variables that decide about colours.
func environment(env func(string) string) []string {
	var all []string
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "TMUX", "STY", "SSH_TTY", "WT_SESSION"} {
		if value := env(name); value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}
