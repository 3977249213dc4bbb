package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redisproc"
)

type fleetDev struct {
	Nodes        int           `default:"3" placeholder:"N" help:"How many machines to play. Defaults to 3."`
	Partitions   int           `default:"4" placeholder:"N" help:"How many partitions. Defaults to 4."`
	Replicas     int           `default:"1" placeholder:"N" help:"How many replicas a partition has. Defaults to 1."`
	Dir          string        `placeholder:"DIR" help:"The folder to work in, which stays. Defaults to a temporary one, which goes."`
	MaxMemory    memorySize    `placeholder:"SIZE" help:"The memory limit of each server, such as 64mb. Defaults to none."`
	RestartAfter time.Duration `default:"5s" placeholder:"DURATION" help:"How long after its death a server is restarted, without its data; 0 for never. Defaults to 5s."`
}

func (*fleetDev) Help() string {
	return `It starts real servers on this machine, one for each member, a directory, and an agent that replaces masters; nodes are only names. It runs until it is interrupted (Ctrl-C, SIGTERM), and then ends its servers and deletes their data. It logs to standard error.

Cause accidents with lines on standard input: kill, freeze, resume or restart, with the address of a server, or the number of a partition for its present master. servers lists the servers, and help lists the commands.

With --json it prints one line when all serve: {"ready":true,"directory":"fleet://HOST:PORT"}.

Examples:

    millrace fleet dev
    millrace fleet dev --nodes 3 --partitions 4 --replicas 1 --dir ./fleet --json
    (sleep 10; echo kill 0; sleep 20) | millrace fleet dev`
}

// errNoServer means that there is no server to run.
var errNoServer = &millrace.Error{
	Code: "no_server", Message: "no redis-server or valkey-server is on PATH",
	Hint: "Install one: apt install redis-server, or brew install redis.",
}

func (c *fleetDev) Run(ctx context.Context, a *app) error {
	switch {
	case c.Nodes < 1 || c.Partitions < 1:
		return errUsage.Errorf("a fleet needs at least one partition and one node, not %d and %d", c.Partitions, c.Nodes)
	case c.Replicas < 0:
		return errUsage.Errorf("a partition cannot have %d replicas", c.Replicas)
	case c.RestartAfter < 0:
		return errUsage.Errorf("--restart-after cannot be %s", c.RestartAfter)
	}
	log := a.logger()
	f, err := devfleet.Start(ctx, c.config(ctx, log))
	switch {
	case errors.Is(err, redisproc.ErrNotFound):
		return errNoServer
	case err != nil:
		return err
	}
	if err := c.serve(ctx, a, log, f); err != nil {
		return errors.Join(err, f.Stop())
	}
	return f.Stop()
}

func (c *fleetDev) config(ctx context.Context, log *slog.Logger) devfleet.Config {
	cfg := devfleet.Config{
		Nodes: c.Nodes, Partitions: c.Partitions, Replicas: c.Replicas, Dir: c.Dir, Pin: true,
		Exited:       func(s devfleet.Server) { log.WarnContext(ctx, s.String()+" died", "addr", s.Addr, "pid", s.Proc.PID()) },
		RestartAfter: c.RestartAfter,
		Restarted: func(s devfleet.Server, err error) {
			if err != nil {
				log.WarnContext(ctx, s.String()+" cannot be restarted", "addr", s.Addr, "error", err)
				return
			}
			log.InfoContext(ctx, s.String()+" was restarted", "addr", s.Addr, "pid", s.Proc.PID())
		},
	}
	if c.Replicas == 0 {
		cfg.Replicas = devfleet.NoReplicas
	}
	if c.MaxMemory > 0 {
		cfg.MaxMemory = fmt.Sprint(int64(c.MaxMemory))
	}
	return cfg
}

// devEvery is the agent's interval of probes.
const devEvery = 250 * time.Millisecond

// serve runs an agent, and the commands of standard input, until it is interrupted.
func (c *fleetDev) serve(ctx context.Context, a *app, log *slog.Logger, f *devfleet.Fleet) error {
	opened, err := fleet.Dial(ctx, f.URL(), fleet.Config{Logger: log})
	if err != nil {
		return err
	}
	defer opened.Close()
	if err := c.ready(a, f); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- untilEnd(ctx, agent.Run(ctx, agent.Config{Fleet: opened, Interval: devEvery, Logger: log}))
	}()
	(&devConsole{a: a, fleet: f, dir: directory.Of(opened.Client())}).run(ctx)
	stop()
	return <-watched
}

// ready prints that the fleet serves.
func (*fleetDev) ready(a *app, f *devfleet.Fleet) error {
	doc := struct {
		Ready     bool   `json:"ready"`
		Directory string `json:"directory"`
	}{true, f.URL()}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintln(w, "ROLE\tPARTITION\tNODE\tADDRESS\tPID")
		fmt.Fprintf(w, "%s\t\t\t%s\t%d\n", devfleet.Directory, f.DirectoryAddr(), f.Directory().Proc.PID())
		for _, s := range f.Servers() {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\n", s.Role, s.Partition, s.Node, s.Addr, s.Proc.PID())
		}
		fmt.Fprintf(w, "\nThe fleet serves, until this command is interrupted. In another shell:\n\n")
		fmt.Fprintf(w, "    export MILLRACE_REDIS_URL=%s\n", f.URL())
		for _, try := range []string{"fleet show", "fleet locate user:7", "queue write orders --tenant acme --body hello", "doctor"} {
			fmt.Fprintf(w, "    millrace %s\n", try)
		}
		fmt.Fprintf(w, "\nAnd here, a line each: kill 0, freeze 0, resume 0, restart 0, servers, help\n")
	})
}

// devConsole executes lines of standard input on the servers of a fleet on this machine.
type devConsole struct {
	a     *app
	fleet *devfleet.Fleet
	dir   *directory.Directory

	frozen []int // processes that were frozen and not resumed
}

// run executes lines until ctx ends. The end of standard input does not end it.
func (c *devConsole) run(ctx context.Context) {
	neverStopForInput()
	lines := make(chan string)
	go func() { // which may wait for a line for as long as the process lives
		for scanner := bufio.NewScanner(c.a.stdin); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case line := <-lines:
			if err := c.do(ctx, strings.Fields(line)); err != nil && ctx.Err() == nil {
				c.a.fail(err, "help")
			}
		case <-ctx.Done():
			return
		}
	}
}

// verb is a command on a server.
type verb struct {
	name string
	does string
	done string // its past participle
	do   func(c *devConsole, ctx context.Context, s devfleet.Server) error
}

var verbs = []verb{
	{"kill", "ends a server at once (SIGKILL)", "killed", (*devConsole).kill},
	{"freeze", "stops it: it keeps its connections and answers nothing (SIGSTOP)", "frozen", (*devConsole).freeze},
	{"resume", "lets it go on (SIGCONT)", "resumed", (*devConsole).resume},
	{"restart", "ends it, if it runs, and starts it again, fenced and without its data", "restarted", (*devConsole).restart},
}

// errCommand means that a line of standard input is no command.
var errCommand = &millrace.Error{
	Code: "bad_usage",
	Hint: "kill, freeze, resume or restart, with HOST:PORT or the number of a partition; servers; help",
}

// do executes a line.
func (c *devConsole) do(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	switch i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == words[0] }); {
	case words[0] == "help" && len(words) == 1:
		return c.help()
	case words[0] == "servers" && len(words) == 1:
		return c.list(ctx)
	case i >= 0 && len(words) == 2:
		return c.doTo(ctx, verbs[i], words[1])
	}
	return errCommand.Errorf("%q is no command", strings.Join(words, " "))
}

// serverDoc is a server. Its role is that of the map, or that at the start if the directory
// does not answer.
type serverDoc struct {
	Role      devfleet.Role `json:"role"`
	Partition int           `json:"partition"` // -1 for the directory
	Node      string        `json:"node"`
	Addr      string        `json:"addr"`
	PID       int           `json:"pid"`   // the last one, of a server that is dead
	State     string        `json:"state"` // runs, frozen, dead
}

// doTo applies a verb to the server that a word names.
func (c *devConsole) doTo(ctx context.Context, v verb, word string) error {
	masters := c.masters(ctx)
	s, err := c.find(word, masters)
	if err != nil {
		return err
	}
	if err := v.do(c, ctx, s); err != nil {
		return fmt.Errorf("cannot %s %s: %w", v.name, s.Addr, err)
	}
	doc := struct {
		Done string `json:"done"`
		serverDoc
	}{v.name, c.describe(s, masters)}
	return c.a.print(doc, func(w io.Writer) { fmt.Fprintf(w, "%s: %s, %s\n", v.done, s.Addr, doc.title()) })
}

func (*devConsole) kill(_ context.Context, s devfleet.Server) error { return s.Proc.Kill() }

func (c *devConsole) freeze(_ context.Context, s devfleet.Server) error {
	if dead(s) {
		return errDead
	}
	if err := s.Proc.Pause(); err != nil {
		return err
	}
	c.frozen = append(c.frozen, s.Proc.PID())
	return nil
}

func (c *devConsole) resume(_ context.Context, s devfleet.Server) error {
	i := slices.Index(c.frozen, s.Proc.PID())
	if i < 0 || dead(s) {
		return c.notFrozen()
	}
	c.frozen = slices.Delete(c.frozen, i, i+1)
	return s.Proc.Resume()
}

func (c *devConsole) restart(ctx context.Context, s devfleet.Server) error {
	if err := s.Proc.Kill(); err != nil { // which works on one that is frozen, too
		return err
	}
	return s.Proc.Restart(ctx)
}

// errDead means that something cannot be done to a server that does not run.
var errDead = &millrace.Error{Code: "dead", Message: "it does not run", Hint: "Start it again with restart."}

// notFrozen names a frozen server: a frozen master may have been replaced, so the number
// of its partition means another server by now.
func (c *devConsole) notFrozen() error {
	err := &millrace.Error{Code: "not_frozen", Message: "it is not frozen", Hint: "No server is."}
	for _, s := range c.all() {
		if slices.Contains(c.frozen, s.Proc.PID()) && !dead(s) {
			err.Hint = "This one is: resume " + s.Addr
		}
	}
	return err
}

// dead reports whether a server's process has ended.
func dead(s devfleet.Server) bool {
	select {
	case <-s.Proc.Done():
		return true
	default:
		return false
	}
}

// masters returns the addresses of the present masters by partition, none if the directory
// does not answer.
func (c *devConsole) masters(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	m, err := c.dir.Load(ctx)
	if err != nil {
		return nil
	}
	var addrs []string
	for _, p := range m.Partitions {
		addrs = append(addrs, p.Master.Addr)
	}
	return addrs
}

// find returns the server that a word names: an address, or a partition's number for
// its master.
func (c *devConsole) find(word string, masters []string) (devfleet.Server, error) {
	addr := word
	if id, err := strconv.Atoi(word); err == nil {
		switch {
		case len(masters) == 0:
			return devfleet.Server{}, errNoSuchServer.Errorf("the directory does not answer, so the master of partition %d is unknown", id)
		case id < 0 || id >= len(masters):
			return devfleet.Server{}, errNoSuchServer.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, len(masters))
		}
		addr = masters[id]
	}
	all := c.all()
	if i := slices.IndexFunc(all, func(s devfleet.Server) bool { return s.Addr == addr }); i >= 0 {
		return all[i], nil
	}
	return devfleet.Server{}, errNoSuchServer.Errorf("this command has no server at %s", addr)
}

// errNoSuchServer means that a word names no server.
var errNoSuchServer = &millrace.Error{Code: "not_found", Hint: "Name a server by its address: servers lists them."}

// all returns the servers, the directory first.
func (c *devConsole) all() []devfleet.Server {
	return append([]devfleet.Server{c.fleet.Directory()}, c.fleet.Servers()...)
}

func (c *devConsole) describe(s devfleet.Server, masters []string) serverDoc {
	doc := serverDoc{Role: s.Role, Partition: s.Partition, Node: s.Node, Addr: s.Addr, PID: s.Proc.PID(), State: "runs"}
	if s.Role != devfleet.Directory && len(masters) > 0 {
		doc.Role = devfleet.Replica
		if slices.Contains(masters, s.Addr) {
			doc.Role = devfleet.Master
		}
	}
	switch {
	case dead(s):
		doc.State = "dead"
	case slices.Contains(c.frozen, doc.PID):
		doc.State = "frozen"
	}
	return doc
}

// title describes a server.
func (d serverDoc) title() string {
	if d.Role == devfleet.Directory {
		return "the directory"
	}
	return fmt.Sprintf("the %s of partition %d on %s", d.Role, d.Partition, d.Node)
}

// list prints the servers.
func (c *devConsole) list(ctx context.Context) error {
	masters := c.masters(ctx)
	var doc struct {
		Servers []serverDoc `json:"servers"`
	}
	for _, s := range c.all() {
		doc.Servers = append(doc.Servers, c.describe(s, masters))
	}
	return c.a.print(doc, func(w io.Writer) {
		fmt.Fprintln(w, "ROLE\tPARTITION\tNODE\tADDRESS\tPID\tSTATE")
		for _, s := range doc.Servers {
			partition := strconv.Itoa(s.Partition)
			if s.Role == devfleet.Directory {
				partition = ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", s.Role, partition, s.Node, s.Addr, s.PID, s.State)
		}
	})
}

// help prints what there is.
func (c *devConsole) help() error {
	type command struct {
		Command string `json:"command"`
		Does    string `json:"does"`
	}
	var doc struct {
		Commands []command `json:"commands"`
	}
	for _, v := range verbs {
		doc.Commands = append(doc.Commands, command{v.name + " HOST:PORT|PARTITION", v.does})
	}
	doc.Commands = append(doc.Commands, command{"servers", "lists the servers"}, command{"help", "prints this"})
	return c.a.print(doc, func(w io.Writer) {
		for _, command := range doc.Commands {
			fmt.Fprintf(w, "%s\t%s\n", command.Command, command.Does)
		}
		fmt.Fprintln(w, "The number of a partition means its master of the moment.")
	})
}
