package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
)

// childArgument is the first argument of a child; the second is its scene.
const childArgument = "demo-child"

// Child plays a child's part if args, the program's arguments without its own
// name, say that this process is one, and returns the exit code. Otherwise it
// does nothing and reports false.
func Child(ctx context.Context, args []string) (code int, handled bool) {
	if len(args) != 2 || args[0] != childArgument {
		return 0, false
	}
	for _, s := range scenes() {
		if s.name == args[1] && s.child != nil {
			return playChild(ctx, s.child), true
		}
	}
	fmt.Fprintf(os.Stderr, "there is no scene %q with children\n", args[1])
	return 2, true
}

// task is what a child is told, in one line of JSON.
type task struct {
	Redis string `json:"redis"` // the server's address
	Name  string `json:"name"`  // of the structure, and of the keys around it

	Visitors int `json:"visitors,omitempty"` // of the expiry scene
}

// part is what a child plays its part with.
type part struct {
	client rueidis.Client
	name   string
	report func(any) error // sends one line of JSON to the parent

	visitors int // of the expiry scene
}

// playChild plays a part on this process's standard streams.
func playChild(ctx context.Context, play func(context.Context, part) error) int {
	err := playPart(ctx, os.Stdin, os.Stdout, play)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playPart reads the task and plays until in ends, which is how the parent
// dismisses a child and how its death is noticed.
func playPart(ctx context.Context, in io.Reader, out io.Writer, play func(context.Context, part) error) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	var t task
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, lines) // nothing more is said; only its end counts
	}()

	client, err := connect.Open(t.Redis)
	if err != nil {
		return err
	}
	defer client.Close()
	err = play(ctx, part{client: client, name: t.Name, report: json.NewEncoder(out).Encode, visitors: t.Visitors})
	if ctx.Err() != nil {
		return nil // dismissed
	}
	return err
}
