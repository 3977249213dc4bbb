package main

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/cmd/millrace/contexts"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

// completeNames is the command that the completion scripts run.
type completeNames struct {
	Words []string `arg:"" optional:"" help:"The words of a command line before the one that is completed."`
}

func (*completeNames) Help() string {
	return `Prints the names that can follow these words, one a line: of queues, Icks, leases, namespaces, tenants, schedules or contexts. It prints nothing if Redis does not answer within half a second.

Examples:

    millrace complete-names -- queue stats`
}

const (
	// namesTimeout is how long a person who pressed tab waits.
	namesTimeout = 500 * time.Millisecond

	// maxNames is how many are offered.
	maxNames = 1000
)

// plainName matches names that mean themselves in every shell. Others are not offered.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._/+@][A-Za-z0-9._:/+@-]*$`)

func (c *completeNames) Run(ctx context.Context, k *kong.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, namesTimeout)
	defer cancel()
	a.quiet = true
	wanted := wantedName(k.Model, c.Words)
	a.redis, a.named = wanted.redis, wanted.context
	for _, name := range a.names(ctx, wanted) {
		if plainName.MatchString(name) {
			fmt.Fprintln(a.stdout, name)
		}
	}
	return nil
}

// wanted describes the name that the next word of a command line may be.
type wanted struct {
	kind           string // the tag complete of its argument or flag; empty for nothing that has a name
	queue          string // the queue among the words before
	redis, context string // the flags
}

func wantedName(model *kong.Application, words []string) (w wanted) {
	valued, bare := valuedFlags(model)
	node, placed, flag := model.Node, 0, ""
	for _, word := range words {
		if flag != "" && !strings.HasPrefix(word, "--") {
			w.note(flag, word)
			flag = ""
			continue
		}
		flag = ""
		name, value, given := strings.Cut(word, "=")
		switch {
		case word == "--":
			return wanted{}
		case strings.HasPrefix(word, "--") && given:
			w.note(name, value)
		case strings.HasPrefix(word, "--"):
			if valued[name] && bare[name] == "" {
				flag = name
			}
		case placed == 0 && subcommand(node, word) != nil:
			node = subcommand(node, word)
		default:
			if kind := kindOfPlace(node, placed); kind == "queue" {
				w.queue = word
			}
			placed++
		}
	}
	if flag == "" {
		w.kind = kindOfPlace(node, placed)
		return w
	}
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if "--"+f.Name == flag {
				w.kind = f.Tag.Get("complete")
			}
		}
	}
	return w
}

func (w *wanted) note(flag, value string) {
	switch flag {
	case "--redis":
		w.redis = value
	case "--context":
		w.context = value
	}
}

// kindOfPlace returns the kind of name that an argument of a command takes. The default verb of a
// noun may be left out.
func kindOfPlace(node *kong.Node, place int) string {
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	if place >= len(node.Positional) {
		return ""
	}
	return node.Positional[place].Tag.Get("complete")
}

// names returns names of a kind, as many as there is time for.
func (a *app) names(ctx context.Context, w wanted) []string {
	if w.kind == "" {
		return nil
	}
	if w.kind == "context" {
		path, err := contexts.Path(a.env)
		if err != nil {
			return nil
		}
		file, _ := contexts.Load(path) // without a file there are none
		return file.Names()
	}
	client, err := a.open(ctx)
	if err != nil {
		return nil
	}
	defer client.Close()
	lists := map[string]func(context.Context, rueidis.Client) iter.Seq2[string, error]{
		"queue": fairqueue.List, "ick": ick.List, "channel": ick.ListChannels, "lease": lease.List, "namespace": expiry.List, "pinned": pinned.List, "tracker": tracker.List,
	}
	var names []string
	if list := lists[w.kind]; list != nil {
		for name, err := range list(ctx, client) {
			if err == nil {
				names = append(names, name)
			}
		}
	} else if q, err := fairqueue.New(client, w.queue, fairqueue.Config{}); err == nil {
		names = namesIn(ctx, q, w.kind)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNames)]
}

// namesIn returns the names of tenants or schedules of a queue.
func namesIn(ctx context.Context, q *fairqueue.Queue, kind string) (names []string) {
	switch kind {
	case "tenant":
		stats, err := q.Stats(ctx)
		if err != nil {
			return nil
		}
		for _, f := range stats.Flows {
			names = append(names, f.Tenant)
		}
	case "schedule":
		for s, err := range q.Schedules().All(ctx) {
			if err != nil {
				return names
			}
			names = append(names, s.Name)
		}
	}
	return names
}
