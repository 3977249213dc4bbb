package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// devConsole does to the servers of a fleet on this machine what standard input
// says, a line each.
type devConsole struct {
	a     *app
	fleet *devfleet.Fleet
	dir   directory.Directory

	frozen []int // the processes that were, and not resumed since
}

// run does what it is told until ctx ends. The end of standard input does not end
// it.
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

// verb is what can be done to a server.
type verb struct {
	name string
	does string
	done string // what it was, afterwards
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

// do does what a line says.
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

// serverDoc is a server, as the map has it, or as it began where that cannot be
// read.
type serverDoc struct {
	Role      devfleet.Role `json:"role"`
	Partition int           `json:"partition"` // -1 for the directory
	Node      string        `json:"node"`
	Addr      string        `json:"addr"`
	PID       int           `json:"pid"`   // the last one, of a server that is dead
	State     string        `json:"state"` // runs, frozen, dead
}

// doTo does something to the server that a word names.
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

// notFrozen says which servers are, since the master of a partition is another one by
// now if the agent noticed.
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

// masters returns the addresses of the masters of now, by partition, and none if the
// directory does not answer.
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
			return devfleet.Server{}, errNoSuchServer.Errorf("the directory does not answer, so nobody can say which master partition %d has", id)
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

// title says what a server is there for.
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
