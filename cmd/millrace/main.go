package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // schedules have time zones, and a container may have none

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/cmd/millrace/demo"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/jsontype"
)

func main() {
	if beGuard(os.Args[1:], os.Stdin) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if code, ok := chaos.Child(ctx, os.Args[1:], demo.Scenes()); ok {
		os.Exit(code)
	}
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// commands is the command line.
type commands struct {
	Redis   string `placeholder:"URL" help:"The Redis to work on: redis://HOST:PORT, rediss://, unix:///path/to/socket, redis://SENTINEL:PORT?master_set=NAME; or the fleet: fleet://HOST:PORT, etcd://HOST:PORT/FLEET. Defaults to $$MILLRACE_REDIS_URL."`
	Context string `placeholder:"NAME" complete:"context" help:"The context to work on: a server by its name in the file of millrace context. Defaults to $$MILLRACE_CONTEXT, or the context in use."`
	JSON    bool   `name:"json" help:"Print one JSON document instead of tables; errors, too, are JSON."`

	Ick      ickCommands      `cmd:"" help:"Dirty lists: marks that fold, batches that are never lost."`
	Hash     hashCommands     `cmd:"" help:"Hashes whose fields expire one by one."`
	Lease    leaseCommands    `cmd:"" help:"Locks that stay until their deadline, with fences."`
	Pinned   pinnedCommands   `cmd:"" help:"Values that exist until their time and not after it."`
	Tracker  trackerCommands  `cmd:"" help:"Which identifiers have work queued in a table of SQL."`
	Counter  counterCommands  `cmd:"" help:"Counters over several servers: written to one, read from all."`
	Queue    queueCommands    `cmd:"" help:"Queues for many tenants: a flood of one does not delay the others."`
	Batch    batchCommands    `cmd:"" help:"Messages of a queue that are counted together, and the message that says that they are done."`
	Schedule scheduleCommands `cmd:"" help:"Messages written to a queue by the clock: every so often, or by a cron expression."`
	Fleet    fleetCommands    `cmd:"" help:"Many Redis servers as one, grown without moving data."`
	Serve    serveCommand     `cmd:"" help:"Serve an HTTP API for any language, pages for people, and metrics."`
	Top      topCommand       `cmd:"" help:"Show live in a terminal who floods and who is slow, and stop it by a key."`
	Contexts contextCommands  `cmd:"" name:"context" help:"Names for servers, in a file, so that no URL is typed at night."`
	Doctor   doctorCommand    `cmd:"" help:"Check whether a Redis is fit for work, with a hint for each finding."`
	Bench    benchCommand     `cmd:"" help:"Measure Millrace on a Redis, each figure beside its baseline."`
	Demo     demoCommand      `cmd:"" help:"Run every structure under load and accidents, and check what it promises."`
	Version  versionCommand   `cmd:"" help:"Print the version."`

	Completion completionCommand `cmd:"" help:"Print a script for shell completion."`
	Names      completeNames     `cmd:"" hidden:"" name:"complete-names" help:"Print names for the scripts of completion."`
}

// Help shows examples.
func (commands) Help() string {
	return `Exits with 0, with 1 when Redis or the structure refused, with 2 when the command line is wrong.

Examples:

    millrace demo
    millrace serve
    export MILLRACE_REDIS_URL=redis://127.0.0.1:6379
    millrace doctor
    millrace top
    millrace ick add search now doc:17
    millrace ick reserve search 100 --json
    millrace hash set sessions user:17 token 3f9a --ttl 30m
    millrace lease acquire nightly --ttl 10m
    millrace queue write orders --tenant acme --body hello
    millrace fleet show`
}

// run is the command without its process: it returns the exit code.
func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{env: env, stdin: stdin, stdout: stdout, stderr: stderr, play: chaos.Run}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	var root commands
	helped := false
	parser, err := newParser(ctx, &root, a, func(int) { helped = true })
	if err != nil {
		return a.fail(err, "millrace")
	}

	line, err := arrange(parser.Model, spelled(args))
	a.json = line.json
	if err != nil {
		return a.fail(err, line.command.FullPath())
	}
	parsed, err := parser.Parse(line.args)
	switch {
	case helped:
		return 0
	case err != nil:
		return a.fail(wrongUsage(err, line.command), line.command.FullPath())
	}
	a.redis, a.named, a.json = root.Redis, root.Context, root.JSON
	a.entry, a.parsed = entryOf(ctx, parsed), parsed

	fail := func(err error) int { return a.fail(err, line.command.FullPath()) }
	if w, ok := reflect.TypeAssert[interface{ interval() time.Duration }](parsed.Selected().Target.Addr()); ok && w.interval() != 0 {
		return a.watch(ctx, w.interval(), strings.Join(append([]string{"millrace"}, args...), " "), func() error { return parsed.Run(a) }, fail)
	}
	err = parsed.Run(a)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errPrinted):
		return 1
	}
	code := 0
	if exit, ok := errors.AsType[programError](err); ok {
		if code = exit.code; exit.err == nil {
			return code
		}
	}
	return cmp.Or(code, fail(err))
}

// spelled rewrites other spellings that people try first: help WORDS becomes WORDS --help, and
// --version becomes version.
func spelled(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) > 0 && args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	default:
		return args
	}
}

// newParser returns kong for the command line. Kong calls exit only after it
// printed help, and then parses on.
func newParser(ctx context.Context, root *commands, a *app, exit func(int)) (*kong.Kong, error) {
	parser, err := kong.New(root,
		kong.Name("millrace"),
		kong.Description("Work distribution on the Redis you already run."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Writers(a.stdout, a.stderr),
		kong.Exit(exit),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.TypeMapper(reflect.TypeFor[jsontype.Text](), kong.MapperFunc(decodeText)),
		kong.TypeMapper(reflect.TypeFor[directory.Member](), kong.MapperFunc(decodeMember)),
		kong.TypeMapper(reflect.TypeFor[map[string]jsontype.Text](), kong.MapperFunc(decodeHeaders)),
	)
	if err == nil {
		describeOps(parser.Model.Node)
	}
	return parser, err
}
