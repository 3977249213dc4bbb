package main

import (
	"context"
	"os"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/plan"
)

// readFile returns the text of a file that a flag names, and the file's name for errors. The
// name - is that of standard input.
func (a *app) readFile(ctx context.Context, path string) (name, text string, err error) {
	if path == "-" {
		input, err := a.input(ctx)
		return "standard input", string(input), err
	}
	input, err := os.ReadFile(path)
	if err != nil {
		err = errUsage.Errorf("the file cannot be read: %s", err).WithHint("Name a file that can be read, or - for standard input.")
	}
	return path, string(input), err
}

// readPartitions reads a file with one partition a line, as --partition takes it. No server
// and, in a partition, no node may be named twice. Errors name the line.
func (a *app) readPartitions(ctx context.Context, path string) ([]grow.Partition, error) {
	name, text, err := a.readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	var list []grow.Partition
	lines := map[string]int{} // of addresses
	err = plan.Lines(name, text, func(number int, line string) error {
		var p partitionSpec
		if strings.ContainsAny(line, " \t") {
			return errSpec.Errorf("white space in partition %q", line)
		}
		if err := p.parse(line); err != nil {
			return err
		}
		nodes := map[string]bool{}
		for _, m := range append([]directory.Member{p.Master}, p.Replicas...) {
			switch before, twice := lines[m.Addr]; {
			case twice:
				return errTwice.Errorf("the server at %s is in line %d already", m.Addr, before)
			case m.Node != "" && nodes[m.Node]:
				return errTwice.Errorf("two members of the partition are on node %s, and would be lost with it", m.Node)
			}
			lines[m.Addr], nodes[m.Node] = number, true
		}
		list = append(list, grow.Partition(p))
		return nil
	})
	if err == nil && len(list) == 0 {
		err = errSpec.Errorf("%s lists no partition", name).
			WithHint("Have it printed: millrace fleet plan --nodes nodes.txt --ram 96GB --threads 16 > fleet.txt")
	}
	return list, err
}

// errTwice means that a file names something a second time.
var errTwice = &millrace.Error{Code: "bad_argument", Hint: "Name each server once, and in a partition each node once."}
