package ick

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// open returns an Ick of the test's own on the shared server.
func open(t *testing.T, cfg Config) *Ick {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

func openOn(t *testing.T, client rueidis.Client, name string, cfg Config) *Ick {
	t.Helper()
	k, err := New(client, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// useScripts has an Ick use other scripts than the package's.
func useScripts(k *Ick, scripts *script.Library) { k.run.Scripts, k.shared.Scripts = scripts, scripts }

// marks reads "a1 b2.5" as member a with score 1 and b with 2.5.
func marks(t *testing.T, text string) []Entry {
	t.Helper()
	var list []Entry
	for word := range strings.FieldsSeq(text) {
		cut := strings.IndexAny(word, "-0123456789")
		score, err := strconv.ParseFloat(word[cut:], 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Entry{Member: word[:cut], Score: score})
	}
	return list
}

// show writes entries as marks reads them.
func show(list []Entry) string {
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = e.Member + strconv.FormatFloat(e.Score, 'g', -1, 64)
	}
	return strings.Join(words, " ")
}

// want fails the test unless an operation answered as expected.
func want(t *testing.T, what string, got, want any, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func wantAdd(t *testing.T, k *Ick, add string, isNew, lowered int) {
	t.Helper()
	got, err := k.Add(t.Context(), marks(t, add)...)
	want(t, "add "+add, got, Added{New: isNew, Lowered: lowered}, err)
}

// wantReserve reserves n, checks the entries and returns the token.
func wantReserve(t *testing.T, k *Ick, n int, entries string) string {
	t.Helper()
	r, err := k.Reserve(t.Context(), n)
	want(t, fmt.Sprintf("reserve %d", n), show(r.Entries), entries, err)
	return r.Token
}

// wantCommit commits members and checks how many were; a commit of which nothing
// could go must say so.
func wantCommit(t *testing.T, k *Ick, token, members string, committed, kept int) {
	t.Helper()
	list := strings.Fields(members)
	got, err := k.Commit(t.Context(), token, list...)
	if committed == 0 && len(list) > 0 {
		wantError(t, err, millrace.ErrStale)
		err = nil
	}
	want(t, "commit "+members, got, Committed{Committed: committed, Kept: kept}, err)
}

// wantExchange exchanges members for n new ones, checks both halves and returns
// the new token.
func wantExchange(t *testing.T, k *Ick, token, members string, n, committed, kept int, entries string) string {
	t.Helper()
	r, c, err := k.Exchange(t.Context(), token, strings.Fields(members), n)
	want(t, "exchange "+members, c, Committed{Committed: committed, Kept: kept}, err)
	want(t, "exchange "+members, show(r.Entries), entries, nil)
	return r.Token
}

// do runs a command that the package itself has no use for.
func do(t *testing.T, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

// scriptCalls returns how many script calls the server has seen, those included that found
// the script unknown.
func scriptCalls(t *testing.T, client rueidis.Client) int {
	t.Helper()
	info, err := do(t, client, "INFO", "commandstats").ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	count, _, _ := strings.Cut(after, ",")
	n, _ := strconv.Atoi(count) // 0 when there was none
	return n
}

// keyspace returns the Ick's keys that exist, without the name in front.
func keyspace(t *testing.T, k *Ick) []string {
	t.Helper()
	var there []string
	for _, name := range keys(k.name) {
		n, err := do(t, k.run.Client, "EXISTS", name).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			there = append(there, name[strings.LastIndex(name, "/")+1:])
		}
	}
	return there
}
