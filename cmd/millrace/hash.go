package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/shards"
)

// hashCommands is the noun hash.
type hashCommands struct {
	Set hashSet `cmd:"" help:"Set a field, for a time or for good."`
	Get hashGet `cmd:"" help:"Print a field."`
	Ls  hashLs  `cmd:"" help:"List the fields of a hash."`
	TTL hashTTL `cmd:"" name:"ttl" help:"Show how long fields have, or give them another time."`
	Rm  hashRm  `cmd:"" help:"Delete fields, a whole hash, or all hashes of a namespace."`
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

// hashName is the arguments that name a hash.
type hashName struct {
	Namespace document.Text `arg:"" name:"ns" complete:"namespace" help:"The namespace."`
	Hash      document.Text `arg:"" help:"The hash's name."`
}

// with opens the namespace for do.
func (n hashName) with(ctx context.Context, a *app, do func(h *expiry.Hashes, hash string) (any, table, error)) error {
	if err := shards.CheckName("hash", string(n.Hash)); err != nil {
		return err
	}
	return withHashes(ctx, a, n.Namespace, func(h *expiry.Hashes) (any, table, error) { return do(h, string(n.Hash)) })
}

// withHashes opens a namespace for do.
func withHashes(ctx context.Context, a *app, namespace document.Text, do func(h *expiry.Hashes) (any, table, error)) error {
	return on(ctx, a, func(c rueidis.Client) (*expiry.Hashes, error) {
		if c == nil {
			return nil, shards.CheckName("namespace", string(namespace))
		}
		return expiry.Open(ctx, c, string(namespace), expiry.Config{AllowEvictable: true})
	}, do)
}

type hashSet struct {
	hashName
	Field   document.Text `arg:"" help:"The field."`
	Value   document.Text `arg:"" help:"Its value."`
	TTL     time.Duration `name:"ttl" placeholder:"DURATION" xor:"time" help:"After how long the field is gone, such as 90s or 24h. Defaults to never."`
	KeepTTL bool          `name:"keep-ttl" xor:"time" help:"Leave the time that the field has."`
}

func (*hashSet) Help() string {
	return `Without --ttl and --keep-ttl the field loses the time that it had.

Examples:

    millrace hash set sessions user:17 token 3f9a --ttl 30m
    millrace hash set sessions user:17 theme dark
    millrace hash set sessions user:17 token 77c0 --keep-ttl`
}

func (c *hashSet) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(h *expiry.Hashes, hash string) (any, table, error) {
		set, err := h.Set(ctx, hash, string(c.Field), []byte(c.Value), expiry.SetConfig{TTL: c.TTL, KeepTTL: c.KeepTTL})
		return map[string]bool{"set": set}, says("set"), err
	})
}

type hashGet struct {
	hashName
	Field document.Text `arg:"" help:"The field."`
}

func (*hashGet) Help() string {
	return `A field that does not exist or has expired fails with the code "not_found". "ttl_ms" is -1 for a field without a time.

Examples:

    millrace hash get sessions user:17 token
    millrace hash get sessions user:17 token --json`
}

func (c *hashGet) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(h *expiry.Hashes, hash string) (any, table, error) {
		value, ttl, err := h.Get(ctx, hash, string(c.Field))
		doc := struct {
			Value document.Text `json:"value"`
			TTL   int64         `json:"ttl_ms"`
		}{document.Text(value), document.Millis(ttl)}
		return doc, says("%s\n\n%s", doc.Value, remaining(ttl)), err
	})
}

// remaining is a remaining time for people.
func remaining(ttl time.Duration) string {
	if ttl == expiry.NoTTL {
		return "stays for good"
	}
	if ttl == expiry.NoField {
		return "not there"
	}
	return "gone in " + readable.Duration(ttl)
}

type hashLs struct {
	watchable
	hashName
}

func (*hashLs) Help() string {
	return `Expired fields are not listed.

Examples:

    millrace hash ls sessions user:17
    millrace hash ls sessions user:17 --json | jq -r '.fields[].field'`
}

func (c *hashLs) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(h *expiry.Hashes, hash string) (any, table, error) {
		fields := []expiry.Field{}
		for f, err := range h.Scan(ctx, hash) {
			if err != nil {
				return nil, nil, err
			}
			fields = append(fields, f)
		}
		doc := document.OfFields(fields) // which sorts them
		return doc, func(w io.Writer) {
			if len(fields) == 0 {
				fmt.Fprintln(w, "no fields")
				return
			}
			fmt.Fprintln(w, "FIELD\tVALUE\tTIME")
			for _, f := range fields {
				fmt.Fprintf(w, "%s\t%s\t%s\n", document.Text(f.Name), document.Text(f.Value), remaining(f.TTL))
			}
		}, nil
	})
}

type hashTTL struct {
	hashName
	Fields  []document.Text `arg:"" name:"field" help:"The fields."`
	Set     time.Duration   `placeholder:"DURATION" xor:"change" help:"Give them this time from now on."`
	Persist bool            `xor:"change" help:"Keep them without a time."`
}

func (*hashTTL) Help() string {
	return `Shows for each field how long it has: "ttl_ms" is -1 for one that stays for good and -2 for one that is not there.

Examples:

    millrace hash ttl sessions user:17 token theme
    millrace hash ttl sessions user:17 token --set 1h
    millrace hash ttl sessions user:17 token --persist`
}

// Run shows, after a change if there is one.
func (c *hashTTL) Run(ctx context.Context, a *app) error {
	if c.Set < 0 {
		return millrace.ErrBadArgument.Errorf("the time is negative: %s", c.Set)
	}
	return c.with(ctx, a, func(h *expiry.Hashes, hash string) (any, table, error) {
		fields := document.Strings(c.Fields)
		if c.Set > 0 {
			if _, err := h.Expire(ctx, hash, c.Set, expiry.ExpireConfig{}, fields...); err != nil {
				return nil, nil, err
			}
		}
		if c.Persist {
			if _, err := h.Persist(ctx, hash, fields...); err != nil {
				return nil, nil, err
			}
		}
		ttls, err := h.TTL(ctx, hash, fields...)
		if err != nil {
			return nil, nil, err
		}
		type field struct {
			Field document.Text `json:"field"`
			TTL   int64         `json:"ttl_ms"`
		}
		list := []field{}
		for i, ttl := range ttls {
			list = append(list, field{c.Fields[i], document.Millis(ttl)})
		}
		return map[string][]field{"fields": list}, func(w io.Writer) {
			fmt.Fprintln(w, "FIELD\tTIME")
			for i, ttl := range ttls {
				fmt.Fprintf(w, "%s\t%s\n", c.Fields[i], remaining(ttl))
			}
		}, nil
	})
}

type hashRm struct {
	Namespace document.Text   `arg:"" name:"ns" complete:"namespace" help:"The namespace."`
	Hash      document.Text   `arg:"" optional:"" help:"The hash."`
	Fields    []document.Text `arg:"" optional:"" name:"field" help:"The fields. Defaults to all of them."`
	All       bool            `help:"Delete all hashes of the namespace: stop writers first."`
	Yes       bool            `help:"Do not ask: only --all does."`
}

func (*hashRm) Help() string {
	return `Prints how many fields there were. An expired field counts as none. With --all it asks first; an interrupted command has deleted a part, and the same one deletes the rest. A namespace that does not exist is no error.

Examples:

    millrace hash rm sessions user:17 token
    millrace hash rm sessions user:17
    millrace hash rm sessions --all`
}

func (c *hashRm) Run(ctx context.Context, a *app) error {
	if c.All == (c.Hash != "") {
		return errUsage.Errorf("this needs a hash or --all").WithHint("--all is for the whole namespace.")
	}
	return withHashes(ctx, a, c.Namespace, func(h *expiry.Hashes) (any, table, error) {
		if c.All {
			if err := a.ask(ctx, c.Yes, fmt.Sprintf("Delete all hashes of the namespace %s?", c.Namespace)); err != nil {
				return nil, nil, err
			}
			return map[string]bool{"dropped": true}, says("deleted"), h.Delete(ctx)
		}
		n, err := c.delete(ctx, h)
		return document.Deleted{Deleted: n}, says("deleted %s", readable.Count(n, "field")), err
	})
}

func (c *hashRm) delete(ctx context.Context, h *expiry.Hashes) (int, error) {
	hash := string(c.Hash)
	if len(c.Fields) > 0 {
		return h.Remove(ctx, hash, document.Strings(c.Fields)...)
	}
	n, err := h.Len(ctx, hash)
	if err != nil {
		return 0, err
	}
	_, err = h.RemoveHash(ctx, hash)
	return n, err
}
