package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// ickCommands is the noun ick.
type ickCommands struct {
	Add      ickAdd      `cmd:""`
	Reserve  ickReserve  `cmd:""`
	Commit   ickCommit   `cmd:""`
	Exchange ickExchange `cmd:""`
	Stats    ickStats    `cmd:""`
	Ls       ickLs       `cmd:""`
	Parked   ickParked   `cmd:"" help:"List, retry or drop members that rest because they failed."`
	Channel  ickChannel  `cmd:"" help:"Share dirty lists among several workers."`
	Rm       ickRm       `cmd:""`
}

func (*ickCommands) Help() string {
	return `A member is marked as dirty any number of times, handed out in batches, and removed when it was handled. A member that was marked again meanwhile is handed out again.

    add ──▶ waiting ──▶ reserve ──▶ reserved ──▶ commit ──▶ gone
               ▲                        │ failed
               └── in time, or retry ── parked ──▶ drop ──▶ gone

Examples:

    millrace ick add search now doc:17 now doc:18
    millrace ick reserve search 100
    millrace ick commit search TOKEN doc:17 doc:18
    millrace ick stats search`
}

// openIck makes an Ick.
func openIck(name ops.Ick, cfg ick.Config) opener[*ick.Ick] {
	return func(c rueidis.Client) (*ick.Ick, error) { return ick.New(c, string(name.Name), cfg) }
}

type ickAdd struct {
	ops.Ick
	markArguments
}

// markArguments are pairs of a score and a member.
type markArguments struct {
	Score  jsontype.Text   `arg:"" help:"Unix seconds since when the member is dirty, inf, -inf, or the word now: the server's clock."`
	Member jsontype.Text   `arg:"" help:"What is dirty."`
	More   []jsontype.Text `arg:"" optional:"" help:"More pairs of score and member."`
}

func (*ickAdd) Help() string { return `The word now cannot be mixed with numbers in one call.` }

func (c *ickAdd) Run(ctx context.Context, a *app) error {
	marks, err := c.marks()
	if err != nil {
		return err
	}
	return perform(ctx, a, openIck(c.Ick, ick.Config{}), ops.AddMarks, marks, tableOfMarked)
}

func tableOfMarked(doc ops.Marked) table { return says("%d new, %d lowered", doc.New, doc.Lowered) }

// marks reads the pairs.
func (c *markArguments) marks() (in ops.Marks, err error) {
	words := append([]jsontype.Text{c.Score, c.Member}, c.More...)
	if len(words)%2 != 0 {
		return in, errUsage.Errorf("scores and members come in pairs, and %s has no member", words[len(words)-1])
	}
	for pair := range slices.Chunk(words, 2) {
		at, member := string(pair[0]), pair[1]
		if at == "now" {
			in.Members = append(in.Members, member)
			continue
		}
		score, err := jsontype.ParseScore(at)
		if err != nil {
			wrong := jsontype.ErrScore.Errorf("%s", err)
			wrong.Hint += " The word now is the server's clock."
			return in, wrong
		}
		in.Marks = append(in.Marks, ops.Entry{Member: member, Score: jsontype.Score(score)})
	}
	if len(in.Members) > 0 && len(in.Marks) > 0 {
		return in, errUsage.Errorf("now and numbers cannot be mixed in one call").WithHint("Make two calls, one with the members that are dirty since now.")
	}
	return in, nil
}

type ickReserve struct {
	ops.Ick
	ops.Reserve
}

func (c *ickReserve) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openIck(c.Ick, c.Config()), ops.ReserveMarks, c.Reserve, func(doc ops.Reserved) table {
		return func(w io.Writer) { tableOfBatch(w, doc) }
	})
}

func tableOfBatch(w io.Writer, r ops.Reserved) {
	if len(r.Entries) == 0 {
		fmt.Fprintln(w, "nothing to reserve")
		return
	}
	fmt.Fprintf(w, "%s under token %s\n\n", readable.Count(len(r.Entries), "member"), r.Token)
	fmt.Fprintln(w, "MEMBER\tSCORE\tAGE")
	for _, e := range r.Entries {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Member, e.Score, age(e.Score, r.At))
	}
}

type ickCommit struct {
	ops.Ick
	ops.Commit
}

func (*ickCommit) Help() string {
	return `When none could go, the command fails with the code "stale".`
}

func (c *ickCommit) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openIck(c.Ick, ick.Config{}), ops.CommitMarks, c.Commit, tableOfCommit)
}

func tableOfCommit(doc ops.Committed) table {
	return says("%d committed, %d kept", doc.Committed, doc.Kept)
}

type ickExchange struct {
	ops.Ick
	ops.Exchange
}

func (c *ickExchange) Run(ctx context.Context, a *app) error {
	if len(c.Members) > 0 && c.Token == "" {
		return errUsage.Errorf("--commit needs the --token under which the members were reserved")
	}
	return perform(ctx, a, openIck(c.Ick, c.Config()), ops.ExchangeMarks, c.Exchange, func(doc ops.Exchanged) table {
		return func(w io.Writer) {
			tableOfCommit(doc.Committed)(w)
			if c.Max > 0 {
				tableOfBatch(w, doc.Reserved)
			}
		}
	})
}

type ickLs struct{ watchable }

func (*ickLs) Help() string {
	return `An Ick that only programs with the gem use must be registered once: by them, or by millrace doctor --scan.

If servers do not answer, what the others have is printed, and the command fails with the code "partial".`
}

func (*ickLs) Run(ctx context.Context, a *app) error {
	return a.list(ctx, "Icks", ick.List, func(names []jsontype.Text, part ops.Incomplete) any {
		return ops.Icks{Icks: names, Incomplete: part}
	})
}

type ickRm struct{ ops.IckDelete }

func (c *ickRm) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openIck(c.Ick, ick.Config{}), ops.DeleteIck, c.IckDelete, tableOfDeleted)
}
