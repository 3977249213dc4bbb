package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
)

// ickCommands is the noun ick.
type ickCommands struct {
	Add      ickAdd      `cmd:"" help:"Mark members as dirty."`
	Reserve  ickReserve  `cmd:"" help:"Take the oldest marks as a batch to work on."`
	Commit   ickCommit   `cmd:"" help:"Remove members that were worked on."`
	Exchange ickExchange `cmd:"" help:"Commit, then reserve, in one round trip."`
	Stats    ickStats    `cmd:"" help:"Show sizes, ages and counters."`
	Ls       ickLs       `cmd:"" help:"List the Icks by name."`
	Parked   ickParked   `cmd:"" help:"List, retry or drop members that rest because they failed."`
	Rm       ickRm       `cmd:"" help:"Delete an Ick with all its marks."`
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

// ickName is the argument that names an Ick.
type ickName struct {
	Name document.Text `arg:"" complete:"ick" help:"The Ick's name, which is its version key in Redis."`
}

// with opens the Ick for do.
func (n ickName) with(ctx context.Context, a *app, cfg ick.Config, do func(*ick.Ick) (any, table, error)) error {
	return on(ctx, a, func(c rueidis.Client) (*ick.Ick, error) { return ick.New(c, string(n.Name), cfg) }, do)
}

type ickAdd struct {
	ickName
	Score  document.Text   `arg:"" help:"Unix seconds since when the member is dirty, inf, -inf, or the word now: the server's clock."`
	Member document.Text   `arg:"" help:"What is dirty."`
	More   []document.Text `arg:"" optional:"" help:"More pairs of score and member."`
}

func (*ickAdd) Help() string {
	return `A member that waits already keeps the lower score. The word now cannot be mixed with numbers in one call.

Examples:

    millrace ick add search now doc:17
    millrace ick add search 1700000000 doc:17 1700000003.5 doc:18 -inf doc:19
    millrace ick add search now -- --a-member-with-hyphens`
}

func (c *ickAdd) Run(ctx context.Context, a *app) error {
	add, err := c.pairs()
	if err != nil {
		return err
	}
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) (any, table, error) {
		added, err := add(ctx, k)
		doc := document.Marked(added)
		return doc, says("%d new, %d lowered", doc.New, doc.Lowered), err
	})
}

type addFunc func(context.Context, *ick.Ick) (ick.Added, error)

// pairs checks all pairs and returns the call that adds them.
func (c *ickAdd) pairs() (addFunc, error) {
	words := append([]document.Text{c.Score, c.Member}, c.More...)
	if len(words)%2 != 0 {
		return nil, errUsage.Errorf("scores and members come in pairs, and %s has no member", words[len(words)-1])
	}
	var marks []ick.Entry
	var now []string
	for pair := range slices.Chunk(words, 2) {
		at, member := string(pair[0]), string(pair[1])
		if at == "now" {
			now = append(now, member)
			continue
		}
		score, err := document.ParseScore(at)
		if err != nil {
			wrong := document.ErrScore.Errorf("%s", err)
			wrong.Hint += " The word now is the server's clock."
			return nil, wrong
		}
		marks = append(marks, ick.Entry{Member: member, Score: score})
	}
	switch {
	case len(now) == 0:
		return func(ctx context.Context, k *ick.Ick) (ick.Added, error) { return k.Add(ctx, marks...) }, nil
	case len(marks) == 0:
		return func(ctx context.Context, k *ick.Ick) (ick.Added, error) { return k.AddNow(ctx, now...) }, nil
	}
	return nil, errUsage.Errorf("now and numbers cannot be mixed in one call").WithHint("Make two calls, one with the members that are dirty since now.")
}

// reserveFlags are the settings of a reserve.
type reserveFlags struct {
	Settle   time.Duration `placeholder:"DURATION" help:"Leave marks that are younger than this, such as 500ms or 2m."`
	Backwash bool          `help:"Let older marks take the place of reserved ones."`
}

func (f reserveFlags) config() ick.Config {
	return ick.Config{Settle: f.Settle, Backwash: f.Backwash}
}

type ickReserve struct {
	ickName
	N int `arg:"" help:"How many members at most."`
	reserveFlags
}

func (*ickReserve) Help() string {
	return `Every reserve hands out reserved members again until they are committed.

Examples:

    millrace ick reserve search 100
    millrace ick reserve search 100 --settle 5s --json`
}

func (c *ickReserve) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, c.config(), func(k *ick.Ick) (any, table, error) {
		r, err := k.Reserve(ctx, c.N)
		doc := document.OfReservation(r)
		return doc, func(w io.Writer) { tableOfBatch(w, doc, r.At) }, err
	})
}

func tableOfBatch(w io.Writer, r document.Reserved, now time.Time) {
	if len(r.Entries) == 0 {
		fmt.Fprintln(w, "nothing to reserve")
		return
	}
	fmt.Fprintf(w, "%s under token %s\n\n", readable.Count(len(r.Entries), "member"), r.Token)
	fmt.Fprintln(w, "MEMBER\tSCORE\tAGE")
	for _, e := range r.Entries {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Member, e.Score, age(e.Score, now))
	}
}

type ickCommit struct {
	ickName
	Token   string          `arg:"" help:"The token of the reserve that handed the members out."`
	Members []document.Text `arg:"" name:"member" help:"The members that were worked on."`
}

func (*ickCommit) Help() string {
	return `Members that were marked and reserved again since are kept, and handed out again. When none could go, the command fails with the code "stale".

Examples:

    millrace ick commit search 1-DV6JPA2Y doc:17 doc:18`
}

func (c *ickCommit) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) (any, table, error) {
		done, err := k.Commit(ctx, c.Token, document.Strings(c.Members)...)
		return document.Committed(done), says("%d committed, %d kept", done.Committed, done.Kept), err
	})
}

type ickExchange struct {
	ickName
	N      int             `arg:"" help:"How many members to reserve at most; 0 only commits."`
	Token  string          `placeholder:"TOKEN" help:"The token of the reserve that handed out what is committed."`
	Commit []document.Text `sep:"none" placeholder:"MEMBER" help:"A member to commit; may be repeated."`
	reserveFlags
}

func (*ickExchange) Help() string {
	return `Unlike commit it does not fail when nothing could be committed: see the counts.

Examples:

    millrace ick exchange search 100 --token 1-DV6JPA2Y --commit doc:17 --commit doc:18`
}

func (c *ickExchange) Run(ctx context.Context, a *app) error {
	if len(c.Commit) > 0 && c.Token == "" {
		return errUsage.Errorf("--commit needs the --token under which the members were reserved")
	}
	return c.with(ctx, a, c.config(), func(k *ick.Ick) (any, table, error) {
		r, done, err := k.Exchange(ctx, c.Token, document.Strings(c.Commit), c.N)
		doc := document.Exchanged{Reserved: document.OfReservation(r), Committed: document.Committed(done)}
		return doc, func(w io.Writer) {
			says("%d committed, %d kept", done.Committed, done.Kept)(w)
			if c.N > 0 {
				tableOfBatch(w, doc.Reserved, r.At)
			}
		}, err
	})
}

type ickLs struct{ watchable }

func (*ickLs) Help() string {
	return `Lists the registered Icks: Millrace programs register each Ick that they use. An Ick that only programs with the gem use must be registered once: by them, or by millrace doctor --scan.

If servers do not answer, what the others have is printed, and the command fails with the code "partial".

Examples:

    millrace ick ls
    millrace ick ls --json`
}

func (*ickLs) Run(ctx context.Context, a *app) error {
	return a.list(ctx, "Icks", ick.List, func(names []document.Text, part document.Incomplete) any {
		return document.Icks{Icks: names, Incomplete: part}
	})
}

type ickRm struct {
	ickName
	Force bool `help:"Delete a broken Ick, too: whatever its keys hold."`
}

func (*ickRm) Help() string {
	return `All marks are lost, waiting, reserved and parked. The count is that of the keys an Ick has in the gem, at most 3; an Ick that is not there counts 0.

Examples:

    millrace ick rm search`
}

func (c *ickRm) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) (any, table, error) {
		remove := k.Delete
		if c.Force {
			remove = k.ForceDelete
		}
		return keysDeleted(remove(ctx))
	})
}
