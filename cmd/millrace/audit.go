package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"log/slog"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/ops"
)

// unsaid are flags that the audit log leaves out: how to connect, ask and print, secrets, and bodies.
var unsaid = []string{"redis", "context", "json", "yes", "token", "body", "header", "file"}

// entryOf returns the entry of a command for the audit log, or nil if it needs none: its class says
// so, and for some its fields.
func entryOf(ctx context.Context, parsed *kong.Context) *audit.Entry {
	node := parsed.Selected()
	command := node.Target.Addr().Interface()
	row := rowOf(strings.TrimPrefix(node.FullPath(), "millrace "), command)
	if row.Action == "" {
		return nil
	}
	if by, ok := command.(ops.Audited); ok && !by.OfOperator(ctx) {
		return nil
	}
	name := node.Positional[0].Target.String()
	if named, ok := command.(interface{ Structure() string }); ok {
		name = named.Structure()
	}
	return &audit.Entry{Action: row.Action, Name: name, Result: said(parsed.Args)}
}

// rowOf returns the row of a command, or of what its flags make of it.
func rowOf(words string, command any) ops.Row {
	if several, ok := command.(interface{ row() ops.Row }); ok {
		return several.row()
	}
	row, _ := ops.ByCommand(words)
	return row
}

// said returns the words of a command line as [arrange] returns them, without the flags that are
// unsaid: the command, its arguments, its flags.
func said(args []string) string {
	words := []string{"millrace"}
	var flags []string
	end := slices.Index(args, "--")
	for _, arg := range args[:end] {
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case !isFlag:
			words = append(words, arg)
		case !slices.Contains(unsaid, name):
			flags = append(flags, arg)
		}
	}
	words = slices.Concat(words, args[end+1:], flags)
	for i, word := range words {
		if !plainWord.MatchString(word) {
			words[i] = quoteFor("bash")(word)
		}
	}
	return strings.Join(words, " ")
}

// plainWord is a word that means itself in a shell.
var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// noteCommand enters the command in the audit log, if people change something with it. It goes over
// the connection of the command, after its work and before its result is printed: a program that
// does not read the result may end the process.
func (a *app) noteCommand(ctx context.Context, client rueidis.Client, failed error) {
	unchanged := a.unanswered || errors.Is(failed, errDeclined) || strings.HasPrefix(millrace.Code(failed), "bad_")
	if a.entry != nil && !unchanged {
		a.note(ctx, client, *a.entry, failed)
	}
}

// note enters an action, which may have failed, in the audit log. That is a memory aid: an entry
// that cannot be written fails nothing.
func (a *app) note(ctx context.Context, client rueidis.Client, e audit.Entry, failed error) {
	e.ID, e.Who, e.Way = rand.Text(), person(), "command"
	if failed != nil {
		e.Error = failed.Error()
	}
	audit.New(client, a.logger(), slog.LevelDebug).Note(ctx, e)
}

// person returns USER@HOST of this process, or the part that is known.
var person = sync.OnceValue(func() string {
	var parts []string
	if u, err := user.Current(); err == nil && u.Username != "" {
		parts = append(parts, u.Username)
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		parts = append(parts, host)
	}
	return strings.Join(parts, "@")
})

// leaseToken returns a token that begins with random letters. It ends with a mark of [person], by which
// the audit log tells a release by the holder from one by another user, host or program.
func leaseToken(random string) string {
	random = random[:20]
	mark := sha256.Sum256([]byte(random + person()))
	return random + base32.StdEncoding.EncodeToString(mark[:])[:6]
}

// issuedHere reports whether a token was issued to this user on this host.
func issuedHere(token string) bool { return len(token) == 26 && token == leaseToken(token) }
