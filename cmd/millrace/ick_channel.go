package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// ickChannel is the noun below ick for dirty lists that several workers share.
type ickChannel struct {
	Add    channelAdd    `cmd:""`
	Work   channelWork   `cmd:"" help:"Run a program for each batch of a channel."`
	Stats  channelStats  `cmd:""`
	Resize channelResize `cmd:""`
	Ls     channelLs     `cmd:""`
	Rm     channelRm     `cmd:""`
}

func (*ickChannel) Help() string {
	return `A channel is several dirty lists behind one name, so that several workers share them: a hash of the member selects its list, and each list has one worker at a time. The lists of a channel NAME are NAME/0, NAME/1 and so on, for ick parked and the others.

Examples:

    millrace ick channel add pages now page:17 now page:18
    millrace ick channel work pages --exec './render'
    millrace ick channel stats pages
    millrace ick channel resize pages 8`
}

// openChannel makes a channel.
func openChannel(name ops.Channel, cfg ick.ChannelConfig) opener[*ick.Channel] {
	return func(c rueidis.Client) (*ick.Channel, error) { return ick.NewChannel(c, string(name.Name), cfg) }
}

type channelAdd struct {
	ops.Channel
	markArguments
}

func (*channelAdd) Help() string { return (*ickAdd)(nil).Help() }

func (c *channelAdd) Run(ctx context.Context, a *app) error {
	marks, err := c.marks()
	if err != nil {
		return err
	}
	return perform(ctx, a, openChannel(c.Channel, ick.ChannelConfig{}), ops.AddToChannel, marks, tableOfMarked)
}

type channelStats struct {
	watchable
	ops.Channel
}

func (c *channelStats) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openChannel(c.Channel, ick.ChannelConfig{}), ops.GetChannelStats, c.Channel, func(doc ops.ChannelStats) table {
		return func(w io.Writer) {
			fmt.Fprintf(w, "%s, %s, %d distinct\n\n", readable.Count(doc.Size, "list"), readable.Count(doc.Consumers, "consumer"), doc.Distinct)
			fmt.Fprintln(w, "LIST\tWAITING\tRESERVED\tPARKED\tOLDEST\tCONSUMER")
			for _, k := range doc.Icks {
				oldest, consumer := "-", "none"
				if k.Waiting+k.Reserved > 0 {
					oldest = readable.Duration(time.Duration(k.OldestAge * float64(time.Second)))
				}
				if k.Consumer != "" {
					consumer = k.Consumer.String()
				}
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", k.Name, k.Waiting, k.Reserved, k.Parked, oldest, consumer)
			}
		}
	})
}

type channelResize struct {
	ops.Channel
	ops.Size
}

func (c *channelResize) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openChannel(c.Channel, ick.ChannelConfig{}), ops.ResizeChannel, c.Size, func(doc ops.Size) table {
		return says("the channel has %s", readable.Count(doc.Size, "list"))
	})
}

type channelLs struct{ watchable }

func (*channelLs) Run(ctx context.Context, a *app) error {
	return a.list(ctx, "channels", ick.ListChannels, func(names []jsontype.Text, part ops.Incomplete) any {
		return ops.Channels{Channels: names, Incomplete: part}
	})
}

type channelRm struct{ ops.Channel }

func (c *channelRm) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openChannel(c.Channel, ick.ChannelConfig{}), ops.DeleteChannel, c.Channel, func(doc ops.Lost) table {
		return says("deleted, with %s", readable.Count(doc.Lost, "mark"))
	})
}

type channelWork struct {
	ops.Channel
	Exec   string            `required:"" placeholder:"COMMAND" help:"What the shell (/bin/sh) runs for each batch."`
	Max    int               `default:"100" placeholder:"N" help:"The largest number of members of a batch. Defaults to ${default}."`
	Settle jsontype.Duration `placeholder:"DURATION" help:"Leave marks that are younger than this. Defaults to 0s."`
	Worker string            `placeholder:"NAME" help:"The name of this worker, which no other one has: one that restarts under its name goes on at once. Defaults to a random text."`
	Grace  time.Duration     `default:"10s" placeholder:"DURATION" help:"How long a command may go on after SIGTERM. Defaults to ${default}."`
}

func (*channelWork) Help() string {
	return `The lists of the channel are divided among all its workers: those of this command, of programs with the library, and over HTTP. The command runs for several batches at once, one for each list that this worker has. It gets the members on standard input, one a line, the oldest first; one with a line break or that is not UTF-8 is {"base64":"..."}. MILLRACE_CHANNEL is in its environment, and its output is this command's. A member may come more than once, so the work must be idempotent.

    exit code 0      all members are done
    exit code 65     all are parked, with the last line of standard error as the reason; with --max 1 a member is judged alone
    all others       the same batch comes again, after a pause that grows to ten seconds

SIGINT and SIGTERM end it: commands get SIGTERM, and SIGKILL after --grace, and their members come again to another worker.

Examples:

    millrace ick channel work pages --exec './render'
    millrace ick channel work pages --exec 'xargs -d "\n" ./render' --max 20 --worker app-3`
}

func (c *channelWork) Run(ctx context.Context, a *app) error {
	switch {
	case c.Max < 1 || c.Max > 1000:
		return millrace.ErrBadArgument.Errorf("a batch has 1 to 1000 members, not %d", c.Max)
	case c.Grace < 0:
		return millrace.ErrBadArgument.Errorf("--grace cannot be negative")
	}
	cfg := ick.ChannelConfig{Ick: ick.Config{Settle: c.Settle.Duration, Logger: a.logger()}, Consumer: c.Worker}
	return on(ctx, a, openChannel(c.Channel, cfg), func(channel *ick.Channel) (any, table, error) {
		guard, err := newGuard()
		if err != nil {
			return nil, nil, errNoStart.Wrap(err)
		}
		defer guard.close()
		err = channel.Consume(ctx, ick.ConsumeConfig{Batch: c.Max}, func(ctx context.Context, batch []ick.Entry) error {
			return c.handle(ctx, a, guard, batch)
		})
		return nil, nil, unlessInterrupted(ctx, err, ick.ErrUncommitted)
	})
}

// handle runs the command for a batch.
func (c *channelWork) handle(ctx context.Context, a *app, guard *guard, batch []ick.Entry) error {
	lines, members := new(bytes.Buffer), make([]string, len(batch))
	for i, e := range batch {
		line, err := oneLine(e.Member)
		if err != nil {
			return err
		}
		fmt.Fprintln(lines, line)
		members[i] = e.Member
	}
	env, err := variables(map[string]string{"CHANNEL": string(c.Name)})
	if err != nil {
		return err
	}
	end, reason, err := a.runShell(ctx, guard, c.Exec, c.Grace, env, lines.Bytes())
	switch {
	case err != nil:
		return err
	case end.stopped:
		return context.Cause(ctx)
	case end.code == exitBadData:
		return ick.Failed(badData(reason), members...)
	case end.code != 0:
		return programError{code: end.code}
	}
	return nil
}

// oneLine returns a member as one line that the command reads as an argument, too.
func oneLine(member string) (string, error) {
	if utf8.ValidString(member) && !strings.ContainsAny(member, "\r\n") {
		text, err := json.Marshal(jsontype.Text(member))
		if err != nil || text[0] == '"' {
			return member, err
		}
	}
	text, err := json.Marshal(map[string][]byte{"base64": []byte(member)})
	return string(text), err
}
