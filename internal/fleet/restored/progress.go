package restored

import (
	"context"
	"embed"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

var library = script.Load(folder, "K:")

// progress is the content of a restored partition's hash.
type progress struct {
	epoch  string // of the restoration, empty if nothing is to be done
	fields map[string]string
}

// Steps of a restoration.
const here = "here"

func with(partition int) string { return "with:" + strconv.Itoa(partition) }

func (t progress) done(step string) bool { return t.fields[step] != "" }

// number returns one of the counts.
func (t progress) number(field string) int {
	n, _ := strconv.Atoi(t.fields[field])
	return n
}

// read reads the hash of a server or partition.
func read(ctx context.Context, c rueidis.Client) (progress, error) {
	fields, err := c.Do(ctx, c.B().Hgetall().Key(members.RestoredKey).Build()).AsStrMap()
	return progress{fields["epoch"], fields}, err
}

// found is how many tags a step found.
type found struct{ marked, lost int }

// store stores that steps are done. It reports false if the partition was restored again.
func (t progress) store(ctx context.Context, c rueidis.Client, n found, steps ...string) (bool, error) {
	return t.run(ctx, c, "done", append([]string{strconv.Itoa(n.marked), strconv.Itoa(n.lost)}, steps...)...)
}

// finish removes the hash. It reports false if the partition was restored again.
func (t progress) finish(ctx context.Context, c rueidis.Client) (bool, error) {
	return t.run(ctx, c, "finish")
}

func (t progress) run(ctx context.Context, c rueidis.Client, name string, args ...string) (bool, error) {
	reply, err := c.Do(ctx, c.B().Eval().Script(library.Script(name).Source()).Numkeys(1).Key(members.Base).
		Arg(t.epoch).Arg(args...).Build()).AsInt64()
	return reply == 1, err
}
