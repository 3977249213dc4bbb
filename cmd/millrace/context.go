package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/contexts"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/internal/redis/address"
)

// contextCommands is the noun context.
type contextCommands struct {
	Ls  contextLs  `cmd:"" help:"List the contexts."`
	Set contextSet `cmd:"" help:"Add or change a context: its --redis."`
	Use contextUse `cmd:"" help:"Work on the server of a context from now on."`
	Rm  contextRm  `cmd:"" help:"Remove a context."`
}

func (*contextCommands) Help() string {
	return `A context is a name for a server or a fleet. Contexts are in config.json in the folder millrace of $XDG_CONFIG_HOME, or of ~/.config, which only its owner may read.

What is named first counts: --redis, --context, $MILLRACE_REDIS_URL, $MILLRACE_CONTEXT, the context in use. bench and demo look at --redis alone. A question before something is lost names the context.

Examples:

    millrace context set prod --redis rediss://ops@10.0.0.1:6379 --password-file /run/secrets/redis
    millrace context use prod
    millrace queue ls --context staging`
}

// choice is the server that a command works on.
type choice struct {
	url     string // empty if nothing names one
	context string // the context that does; empty if none does
	err     error  // why it is not known
}

// url returns the URL that the command line, the environment or a context names, or "".
func (a *app) url() string {
	if a.chosen == nil {
		a.chosen = a.choose()
	}
	return a.chosen.url
}

// noURL returns why there is no URL: the fault of the context, or that none is named.
func (a *app) noURL(none *millrace.Error) error {
	if a.chosen.err != nil {
		return a.chosen.err
	}
	return none
}

func (a *app) choose() *choice {
	name := a.named
	switch url := a.env("MILLRACE_REDIS_URL"); {
	case a.redis != "" && name != "":
		return &choice{err: errUsage.Errorf("--redis and --context name two servers")}
	case a.redis != "":
		return &choice{url: a.redis}
	case name != "":
	case url != "":
		return &choice{url: url}
	default:
		name = a.env("MILLRACE_CONTEXT")
	}
	path, err := contexts.Path(a.env)
	if err != nil && name == "" {
		return &choice{} // there is no place for a file
	}
	var file contexts.File
	if err == nil {
		file, err = contexts.Load(path)
	}
	if name = cmp.Or(name, file.Use); err != nil || name == "" {
		return &choice{err: err}
	}
	url, err := file.URL(name)
	return &choice{url, name, err}
}

// withContexts changes the file of contexts, unless do fails.
func (a *app) withContexts(do func(f *contexts.File) (any, string, error)) error {
	path, err := contexts.Path(a.env)
	if err != nil {
		return err
	}
	file, err := contexts.Load(path)
	if err != nil {
		return err
	}
	doc, said, err := do(&file)
	if err != nil {
		return err
	}
	if err := file.Save(path); err != nil {
		return err
	}
	return a.print(doc, says("%s", said))
}

type contextLs struct{}

func (*contextLs) Help() string {
	return `Passwords are not shown.

Examples:

    millrace context ls`
}

// contextDoc is a context in the document of context ls.
type contextDoc struct {
	Name         string `json:"name"`
	Redis        string `json:"redis"`
	PasswordFile string `json:"password_file"`
	Used         bool   `json:"used"`
}

func (*contextLs) Run(a *app) error {
	path, err := contexts.Path(a.env)
	if err != nil {
		return err
	}
	file, err := contexts.Load(path)
	if err != nil {
		return err
	}
	url := a.url()
	doc := struct {
		Contexts []contextDoc `json:"contexts"`
		Server   string       `json:"server"`
	}{[]contextDoc{}, redacted(url)}
	for _, name := range file.Names() {
		c := file.Contexts[name]
		doc.Contexts = append(doc.Contexts, contextDoc{name, redacted(c.Redis), c.PasswordFile, name == a.chosen.context})
	}
	return a.print(doc, func(w io.Writer) {
		if len(doc.Contexts) == 0 {
			fmt.Fprintln(w, "there are no contexts; add one with: millrace context set NAME --redis URL")
			return
		}
		fmt.Fprintln(w, "\tNAME\tREDIS\tPASSWORD FILE")
		for _, c := range doc.Contexts {
			used := ""
			if c.Used {
				used = "*"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", used, c.Name, c.Redis, c.PasswordFile)
		}
		if a.chosen.context == "" && url != "" {
			fmt.Fprintf(w, "\n--redis or the environment names the server: %s\n", doc.Server)
		}
	})
}

// redacted returns URLs without their passwords, those of fleets also without users and flags.
func redacted(urls string) string {
	switch {
	case urls == "":
		return ""
	case open.Is(urls):
		scheme, rest, _ := strings.Cut(urls, "://")
		path := rest[min(len(rest), strings.IndexByte(rest+"/", '/')):]
		path, _, _ = strings.Cut(path, "?")
		return scheme + "://" + strings.ReplaceAll(open.Servers(urls), ", ", ",") + path
	}
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		parts[i] = address.Redacted(part)
	}
	return strings.Join(parts, ",")
}

type contextSet struct {
	Name         string `arg:"" complete:"context" help:"The context's name."`
	PasswordFile string `placeholder:"FILE" help:"Its first line is the password, read at each use. Defaults to that of the URL."`
}

func (*contextSet) Help() string {
	return `The URL is that of --redis. It is not asked whether the server answers.

Examples:

    millrace context set local --redis redis://127.0.0.1:6379
    millrace context set prod --redis etcd://10.0.0.1:2379/prod --password-file /run/secrets/redis`
}

func (c *contextSet) Run(a *app) error {
	if err := contexts.CheckName(c.Name); err != nil {
		return err
	}
	if a.redis == "" {
		return errUsage.Errorf("--redis names the server of the context")
	}
	var err error
	if open.Is(a.redis) {
		_, err = a.fleetURL()
	} else {
		_, _, err = connect.Options(a.redis)
	}
	if err != nil {
		return err
	}
	doc := contextDoc{c.Name, redacted(a.redis), c.PasswordFile, false}
	return a.withContexts(func(f *contexts.File) (any, string, error) {
		f.Contexts[c.Name] = contexts.Context{Redis: a.redis, PasswordFile: c.PasswordFile}
		doc.Used = f.Use == c.Name
		_, err := f.URL(c.Name) // the password is there
		return doc, c.Name + " is " + doc.Redis, err
	})
}

type contextUse struct {
	Name string `arg:"" optional:"" complete:"context" help:"The context's name. Without it no context is used."`
}

func (*contextUse) Help() string {
	return `Examples:

    millrace context use prod
    millrace context use`
}

func (c *contextUse) Run(_ context.Context, a *app) error {
	return a.withContexts(func(f *contexts.File) (any, string, error) {
		said := "no context is used"
		if c.Name != "" {
			if _, err := f.URL(c.Name); err != nil {
				return nil, "", err
			}
			said = c.Name + " is used"
		}
		f.Use = c.Name
		return map[string]string{"use": c.Name}, said, nil
	})
}

type contextRm struct {
	Name string `arg:"" complete:"context" help:"The context's name."`
}

func (*contextRm) Help() string {
	return `Nothing happens to its server.

Examples:

    millrace context rm staging`
}

func (c *contextRm) Run(a *app) error {
	return a.withContexts(func(f *contexts.File) (any, string, error) {
		if _, ok := f.Contexts[c.Name]; !ok {
			return nil, "", contexts.ErrContext.Errorf("there is no context %.80q", c.Name)
		}
		delete(f.Contexts, c.Name)
		if f.Use == c.Name {
			f.Use = ""
		}
		return map[string]string{"removed": c.Name}, c.Name + " is removed", nil
	})
}
