package main

import (
	"context"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// perform does an operation on a structure, and prints its result as a table of the command.
func perform[S, In, Out any](ctx context.Context, a *app, open opener[S], o ops.Operation[S, In, Out], in In, as func(Out) table) error {
	return on(ctx, a, open, func(structure S) (any, table, error) {
		out, err := o.Do(ctx, structure, in)
		return out, as(out), err
	})
}

// onQueue does an operation on a queue, and prints its result as a table of the command.
func onQueue[In, Out any](ctx context.Context, a *app, name ops.Queue, o ops.Operation[*fairqueue.Queue, In, Out], in In, as func(Out) table) error {
	return queueName{name}.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		out, err := o.Do(ctx, q, in)
		return out, as(out), err
	})
}

// describeOps gives commands the texts of their operations: that of the command, and those of the
// flags whose fields have a "doc".
func describeOps(node *kong.Node) {
	if row, ok := ops.ByCommand(strings.TrimPrefix(node.FullPath(), "millrace ")); ok {
		node.Help = row.Summary + "."
		more := ""
		if node.Detail != "" { // of the command alone
			more = "\n\n" + node.Detail
		}
		node.Detail = row.Detail + more + "\n\nExamples:\n\n    millrace " + strings.Join(row.Examples, "\n    millrace ")
	}
	for _, flag := range node.Flags {
		describeField(flag.Value)
	}
	for _, argument := range node.Positional {
		describeField(argument)
	}
	for _, child := range node.Children {
		describeOps(child)
	}
}

// describeField gives a flag or an argument the text of its field, with its limits.
func describeField(v *kong.Value) {
	doc := v.Tag.Get("doc")
	if doc == "" || v.Help != "" {
		return
	}
	least, most := v.Tag.Get("minimum"), v.Tag.Get("maximum")
	switch {
	case v.Tag.Enum != "":
		doc += " One of " + strings.ReplaceAll(v.Tag.Enum, ",", ", ") + "."
	case most != "" && !strings.Contains(doc, "from "+least):
		doc += " From " + grouped(least) + " to " + grouped(most) + "."
	}
	if v.Tag.HasDefault {
		doc += " Defaults to " + grouped(v.Tag.Default) + "."
	}
	v.Help = doc
}

// grouped writes a number with commas, and leaves other text.
func grouped(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return readable.Number(n)
	}
	return text
}

// decodeHeaders reads one flag NAME=VALUE into a map.
func decodeHeaders(ctx *kong.DecodeContext, target reflect.Value) error {
	pair := word(ctx)
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" {
		return errUsage.Errorf("a header is NAME=VALUE, not %q", pair)
	}
	if target.IsNil() {
		target.Set(reflect.MakeMap(target.Type()))
	}
	if target.MapIndex(reflect.ValueOf(name)).IsValid() {
		return errUsage.Errorf("the header %q is given twice", name)
	}
	text, err := jsontype.ParseText(value)
	target.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
	return err
}
