package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/shards"
)

// hashCommands is the noun hash.
type hashCommands struct {
	Set hashSet `cmd:""`
	Get hashGet `cmd:""`
	Ls  hashLs  `cmd:""`
	TTL hashTTL `cmd:"" name:"ttl"`
	Rm  hashRm  `cmd:""`
}

func (*hashCommands) Help() string {
	return `The fields of these hashes expire one by one, at their time by the server's clock. Until then they stay; afterwards no call returns them, even before their memory is freed. A namespace is created by its first field.

    set --ttl 10m ──▶ there ──▶ its time is over: gone to all, reaped soon after
                      │  ▲
                      ▼  │ ttl --set, ttl --persist, set
                      another time

Examples:

    millrace hash set sessions user:17 token 3f9a --ttl 30m
    millrace hash get sessions user:17 token
    millrace hash ls sessions user:17
    millrace hash ttl sessions user:17 token --set 1h
    millrace hash rm sessions user:17 token`
}

// openHash makes a hash.
func openHash(ctx context.Context, of ops.Hash) opener[ops.OneHash] {
	return func(c rueidis.Client) (ops.OneHash, error) {
		one := ops.OneHash{Name: string(of.Hash)}
		err := shards.CheckName("hash", one.Name)
		if err == nil {
			one.Of, err = openNamespace(ctx, of.Namespace)(c)
		}
		return one, err
	}
}

// openNamespace makes the hashes of a namespace.
func openNamespace(ctx context.Context, name jsontype.Text) opener[*expiry.Hashes] {
	return func(c rueidis.Client) (*expiry.Hashes, error) {
		if c == nil {
			return nil, shards.CheckName("namespace", string(name))
		}
		return expiry.Open(ctx, c, string(name), expiry.Config{AllowEvictable: true})
	}
}

type hashSet struct {
	ops.Hash
	Field jsontype.Text `arg:"" help:"The field."`
	Value jsontype.Text `arg:"" help:"Its value."`
	ops.Lifetime
}

// Run sets one field, whose name may be any bytes. In the body of a request names are keys of JSON.
func (c *hashSet) Run(ctx context.Context, a *app) error {
	return on(ctx, a, openHash(ctx, c.Hash), func(h ops.OneHash) (any, table, error) {
		set, err := h.Of.Set(ctx, h.Name, string(c.Field), []byte(c.Value), c.Config())
		return ops.FieldsSet{Set: set}, says("set"), err
	})
}

type hashGet struct {
	ops.Hash
	Field jsontype.Text `arg:"" help:"The field."`
}

func (c *hashGet) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openHash(ctx, c.Hash), ops.GetField, c.Field, func(doc ops.FieldValue) table {
		return says("%s\n\n%s", doc.Value, lifetime(doc.TTL))
	})
}

// lifetime writes the time of a field in milliseconds for people.
func lifetime(ttl int64) string {
	switch ttl {
	case int64(expiry.NoTTL):
		return "stays for good"
	case ops.NoField:
		return "not there"
	}
	return "gone in " + remaining(ttl)
}

type hashLs struct {
	watchable
	ops.Hash
}

func (c *hashLs) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openHash(ctx, c.Hash), ops.GetHash, ops.HashQuery{Whole: true}, func(doc ops.Fields) table {
		return func(w io.Writer) {
			if len(doc.Fields) == 0 {
				fmt.Fprintln(w, "no fields")
				return
			}
			fmt.Fprintln(w, "FIELD\tVALUE\tTIME")
			for _, f := range doc.Fields {
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Field, f.Value, lifetime(f.TTL))
			}
		}
	})
}

type hashTTL struct {
	ops.Hash
	ops.FieldNames
	Set     time.Duration `placeholder:"DURATION" xor:"change" help:"Give them this time from now on."`
	Persist bool          `xor:"change" help:"Keep them without a time."`
}

// Run shows, after a change if there is one.
func (c *hashTTL) Run(ctx context.Context, a *app) error {
	if a.given("set") && c.Set <= 0 {
		return millrace.ErrBadArgument.Errorf("a time is more than 0, not %s", c.Set).WithHint("Delete fields with: millrace hash rm")
	}
	return on(ctx, a, openHash(ctx, c.Hash), func(h ops.OneHash) (_ any, _ table, err error) {
		switch {
		case c.Set > 0:
			_, err = ops.ExpireFields.Do(ctx, h, ops.Expire{FieldNames: c.FieldNames, TTL: jsontype.Duration{Duration: c.Set}})
		case c.Persist:
			_, err = ops.PersistFields.Do(ctx, h, c.FieldNames)
		}
		if err != nil {
			return nil, nil, err
		}
		doc, err := ops.GetTTLs.Do(ctx, h, c.FieldNames)
		return doc, func(w io.Writer) {
			fmt.Fprintln(w, "FIELD\tTIME")
			for _, f := range doc.Fields {
				fmt.Fprintf(w, "%s\t%s\n", f.Field, lifetime(f.TTL))
			}
		}, err
	})
}

// hashRm is three operations by its arguments.
type hashRm struct {
	Namespace jsontype.Text   `arg:"" name:"ns" complete:"namespace" help:"The namespace."`
	Hash      jsontype.Text   `arg:"" optional:"" help:"The hash."`
	Fields    []jsontype.Text `arg:"" optional:"" name:"field" help:"The fields. Defaults to all of them."`
	All       bool            `help:"Delete all hashes of the namespace: stop writers first."`
	Yes       bool            `help:"Do not ask: only --all does."`
}

func (*hashRm) Help() string {
	return `If fields are named, only they are deleted. With --all it deletes all hashes of the namespace, and asks first; an interrupted command has deleted a part, and the same one deletes the rest. A namespace that does not exist is no error.`
}

// row returns the row of the operation that it is by its arguments.
func (c *hashRm) row() ops.Row {
	if len(c.Fields) > 0 {
		return ops.DeleteFields.Row
	}
	return ops.DeleteHash.Row
}

// Structure returns the name for the audit log.
func (c *hashRm) Structure() string {
	if c.All {
		return string(c.Namespace)
	}
	return ops.Hash{Namespace: c.Namespace, Hash: c.Hash}.Structure()
}

func (c *hashRm) Run(ctx context.Context, a *app) error {
	of := ops.Hash{Namespace: c.Namespace, Hash: c.Hash}
	deleted := func(doc ops.Deleted) table { return says("deleted %s", readable.Count(doc.Deleted, "field")) }
	switch {
	case c.All == (c.Hash != ""):
		return errUsage.Errorf("this needs a hash or --all").WithHint("--all is for the whole namespace.")
	case len(c.Fields) > 0:
		return perform(ctx, a, openHash(ctx, of), ops.DeleteFields, ops.FieldNames{Fields: c.Fields}, deleted)
	case !c.All:
		return perform(ctx, a, openHash(ctx, of), ops.DeleteHash, of, deleted)
	}
	return on(ctx, a, openNamespace(ctx, c.Namespace), func(h *expiry.Hashes) (any, table, error) {
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Delete all hashes of the namespace %s?", c.Namespace)); err != nil {
			return nil, nil, err
		}
		return map[string]bool{"dropped": true}, says("deleted"), h.Delete(ctx)
	})
}
