package devfleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// verb is an accident that a person can cause.
type verb struct {
	name string
	does string
	done string // its past participle
	do   func(ctx context.Context, p *redisproc.Proc) error
}

var verbs = []verb{
	{"kill", "ends a server at once (SIGKILL)", "killed", func(_ context.Context, p *redisproc.Proc) error { return p.Kill() }},
	{"freeze", "stops it: it keeps its connections and answers nothing (SIGSTOP)", "frozen", func(_ context.Context, p *redisproc.Proc) error {
		if p.Ended() {
			return errDead
		}
		return p.Pause()
	}},
	{"resume", "lets it go on (SIGCONT)", "resumed", func(_ context.Context, p *redisproc.Proc) error {
		if !p.Paused() {
			return errNotFrozen
		}
		return p.Resume()
	}},
	{"restart", "ends it, if it runs, and starts it again, fenced and without its data", "restarted", func(ctx context.Context, p *redisproc.Proc) error {
		if err := p.Kill(); err != nil { // also if it is frozen
			return err
		}
		return p.Restart(ctx)
	}},
}

var (
	errCommand = &millrace.Error{
		Code: "bad_usage",
		Hint: "kill, freeze, resume or restart, with HOST:PORT or the number of a partition; servers; help",
	}
	errDead         = &millrace.Error{Code: "dead", Message: "it does not run", Hint: "Start it again with restart."}
	errNotFrozen    = &millrace.Error{Code: "not_frozen", Message: "it is not frozen", Hint: "No server is."}
	errNoSuchServer = &millrace.Error{Code: "not_found", Hint: "Name a server by its address: servers lists them."}
)

// Status is how a server is. Its role is that of the map, or that of the start if the
// directory does not answer.
type Status struct {
	Role      Role   `json:"role"`
	Partition int    `json:"partition"` // NoPartition for the directory
	Node      string `json:"node"`
	Addr      string `json:"addr"`
	PID       int    `json:"pid"`   // the last one, of a server that is dead
	State     string `json:"state"` // runs, frozen, dead
}

// String says which server it is.
func (s Status) String() string {
	if s.Role == Directory {
		return "the directory"
	}
	return fmt.Sprintf("the %s of partition %d on %s", s.Role, s.Partition, s.Node)
}

// States returns the state of all servers, the directory first.
func (f *Fleet) States(ctx context.Context) []Status {
	masters := f.masters(ctx)
	var all []Status
	for _, s := range f.all() {
		all = append(all, s.status(masters))
	}
	return all
}

// Execute runs a line that a person typed: a verb and a server, servers, or help. It returns the
// result for programs, nil for none, and a function that writes it for people. A server is
// named by its address or, for its present master, by the number of a partition.
func (f *Fleet) Execute(ctx context.Context, line string) (doc any, table func(w io.Writer), err error) {
	words := strings.Fields(line)
	switch line = strings.Join(words, " "); line {
	case "":
		return nil, nil, nil
	case "help":
		doc, table = help()
		return doc, table, nil
	case "servers":
		states := f.States(ctx)
		return map[string][]Status{"servers": states}, func(w io.Writer) { list(w, states, true) }, nil
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == words[0] })
	if i < 0 || len(words) != 2 {
		return nil, nil, errCommand.Errorf("%q is no command", line)
	}
	v := verbs[i]
	s, err := f.cause(ctx, v, words[1])
	if err != nil {
		return nil, nil, err
	}
	doc = struct {
		Done string `json:"done"`
		Status
	}{v.name, s}
	return doc, func(w io.Writer) { fmt.Fprintf(w, "%s: %s, %s\n", v.done, s.Addr, s) }, nil
}

// Console does what the lines of an input say, see Execute, and calls show with each result, until ctx
// ends. The end of the input is not that of the console.
func (f *Fleet) Console(ctx context.Context, input io.Reader, show func(doc any, table func(w io.Writer), err error)) {
	lines := make(chan string)
	go func() { // which may wait for a line for as long as the process lives
		for scanner := bufio.NewScanner(input); scanner.Scan(); {
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
			show(f.Execute(ctx, line))
		case <-ctx.Done():
			return
		}
	}
}

// Welcome writes for people which servers there are, and what to try.
func (f *Fleet) Welcome(ctx context.Context, w io.Writer) {
	list(w, f.States(ctx), false)
	fmt.Fprintf(w, `
The fleet serves, until this command is interrupted. In another shell:

    export MILLRACE_REDIS_URL=%s
    millrace fleet show
    millrace fleet locate user:7
    millrace queue write orders --tenant acme --body hello
    millrace doctor

And here, a line each: kill 0, freeze 0, resume 0, restart 0, servers, help
`, f.URL())
}

// list writes servers for people, with their states or without.
func list(w io.Writer, servers []Status, states bool) {
	row := func(state string, cells ...any) {
		fmt.Fprintf(w, "%v\t%v\t%v\t%v\t%v", cells...)
		if states {
			fmt.Fprint(w, "\t", state)
		}
		fmt.Fprintln(w)
	}
	row("STATE", "ROLE", "PARTITION", "NODE", "ADDRESS", "PID")
	for _, s := range servers {
		var partition any = s.Partition
		if s.Role == Directory {
			partition = ""
		}
		row(s.State, s.Role, partition, s.Node, s.Addr, s.PID)
	}
}

// helpDoc lists the commands.
type helpDoc struct {
	Commands []helpLine `json:"commands"`
}

type helpLine struct {
	Command string `json:"command"`
	Does    string `json:"does"`
}

func help() (doc helpDoc, table func(w io.Writer)) {
	for _, v := range verbs {
		doc.Commands = append(doc.Commands, helpLine{v.name + " HOST:PORT|PARTITION", v.does})
	}
	doc.Commands = append(doc.Commands, helpLine{"servers", "lists the servers"}, helpLine{"help", "prints this"})
	return doc, func(w io.Writer) {
		for _, line := range doc.Commands {
			fmt.Fprintf(w, "%s\t%s\n", line.Command, line.Does)
		}
		fmt.Fprintln(w, "The number of a partition means its master of the moment.")
	}
}

// cause causes an accident to the server of a name.
func (f *Fleet) cause(ctx context.Context, v verb, name string) (Status, error) {
	masters := f.masters(ctx)
	s, err := f.find(name, masters)
	if err != nil {
		return Status{}, err
	}
	switch err = v.do(ctx, s.Proc); {
	case errors.Is(err, errNotFrozen):
		// A frozen master may have been replaced, so the number means another server by now.
		all := f.all()
		if i := slices.IndexFunc(all, func(s Server) bool { return s.Proc.Paused() }); i >= 0 {
			err = errNotFrozen.WithHint("This one is: resume " + all[i].Addr)
		}
		fallthrough
	case err != nil:
		return Status{}, fmt.Errorf("cannot %s %s: %w", v.name, s.Addr, err)
	}
	return s.status(masters), nil
}

// all returns the servers, the directory first.
func (f *Fleet) all() []Server {
	if f.cfg.Directory != nil {
		return f.Servers()
	}
	return append([]Server{f.directory}, f.Servers()...)
}

// masters returns the addresses of the present masters by partition, none if the directory
// does not answer.
func (f *Fleet) masters(ctx context.Context) (addrs []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	dir, done, err := f.dial()
	if err != nil {
		return nil
	}
	defer done()
	m, err := dir.Load(ctx)
	if err != nil {
		return nil
	}
	for _, p := range m.Partitions {
		addrs = append(addrs, p.Master.Addr)
	}
	return addrs
}

func (f *Fleet) find(name string, masters []string) (Server, error) {
	addr := name
	if id, err := strconv.Atoi(name); err == nil {
		switch {
		case len(masters) == 0:
			return Server{}, errNoSuchServer.Errorf("the directory does not answer, so the master of partition %d is unknown", id)
		case id < 0 || id >= len(masters):
			return Server{}, errNoSuchServer.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, len(masters))
		}
		addr = masters[id]
	}
	for _, s := range f.all() {
		if s.Addr == addr {
			return s, nil
		}
	}
	return Server{}, errNoSuchServer.Errorf("this command has no server at %s", addr)
}

func (s Server) status(masters []string) Status {
	status := Status{Role: s.Role, Partition: s.Partition, Node: s.Node, Addr: s.Addr, PID: s.Proc.PID(), State: "runs"}
	if s.Role != Directory && len(masters) > 0 {
		status.Role = Replica
		if slices.Contains(masters, s.Addr) {
			status.Role = Master
		}
	}
	switch {
	case s.Proc.Ended():
		status.State = "dead"
	case s.Proc.Paused():
		status.State = "frozen"
	}
	return status
}
