package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/ops"
)

// TestTheCommandHasAllOperations: each operation is a command with its texts, examples that can be
// parsed, and a place in the audit log if its class says so, or its row says why it is none.
func TestTheCommandHasAllOperations(t *testing.T) {
	t.Parallel()
	all := leaves(t)
	for _, row := range ops.All() {
		for _, lack := range lacksInCommand(t, all, row) {
			t.Errorf("%s: %s", row.ID, lack)
		}
	}

	if lacks := lacksInCommand(t, all, ops.Row{ID: "closeQueue", Path: "/v1/queues/{name}/close"}); len(lacks) != 1 {
		t.Errorf("of an operation without words the test reports %q, want that", lacks)
	}

	// An operation that is on no surface.
	added := ops.Row{ID: "closeQueue", Words: "queue close", Class: ops.Change, Summary: "Close a queue", Examples: []string{"queue close orders"}}
	if lacks := lacksInCommand(t, all, added); len(lacks) != 3 {
		t.Errorf("of an operation that is nowhere, the test reports %q, want no command, no example and no action", lacks)
	}
}

// lacksInCommand says what the command lacks of an operation.
func lacksInCommand(t *testing.T, all []*kong.Node, row ops.Row) (lacks []string) {
	t.Helper()
	switch {
	case row.Words == "" && row.Only == "":
		return []string{"it has no words, and does not say why"}
	case row.Words == "":
		return nil
	}
	at := slices.IndexFunc(all, func(n *kong.Node) bool { return n.FullPath() == "millrace "+row.Words })
	switch {
	case at < 0:
		lacks = append(lacks, "there is no command "+row.Words)
	case all[at].Help != row.Summary+"." || !strings.Contains(all[at].Detail, row.Detail):
		lacks = append(lacks, "its help has other texts")
	default:
		for _, flag := range slices.Concat(all[at].Positional, flagValues(all[at])) {
			if flag.Help == "" {
				lacks = append(lacks, flag.Name+" has no text")
			}
		}
	}
	if len(row.Examples) == 0 {
		lacks = append(lacks, "it has no example")
	}
	for _, example := range row.Examples {
		command, _, _ := strings.Cut(example, " < ")
		command, _, _ = strings.Cut(command, " | ")
		parser, err := newParser(t.Context(), new(commands), new(app), func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		l, err := arrange(parser.Model, words(command))
		if err == nil {
			_, err = parser.Parse(l.args)
		}
		if err != nil {
			lacks = append(lacks, example+": "+err.Error())
		}
	}
	if row.Class.Audited() != (row.Action != "" && slices.Contains(audit.Actions(), row.Action)) {
		lacks = append(lacks, "the audit log has no action for it")
	}
	return lacks
}

func flagValues(n *kong.Node) (all []*kong.Value) {
	for _, flag := range n.Flags {
		all = append(all, flag.Value)
	}
	return all
}
