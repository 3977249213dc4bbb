package membership

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Config says how servers are reached and proved, and which agent carries plans out. The zero value
// works. Its Settings are not used.
type Config grow.Config

func (c *Config) report(format string, args ...any) { (*grow.Config)(c).Report(format, args...) }

// Examine checks that a plan can be carried out, and changes nothing. New servers must fit,
// and be able to copy their partitions, or the error is grow.ErrUnfit. Members to restart
// must be whole, or it is ErrRefused. Warnings are facts that an operator should know. A plan that
// has begun needs no check.
func (c *Config) Examine(ctx context.Context, m *directory.Map, p *Plan) (warnings []string, err error) {
	if p.Begun {
		return nil, nil
	}
	joining := p.Newcomers()
	if len(joining) > 0 {
		if err := (*grow.Config)(c).Examine(ctx, m, joining); err != nil {
			return nil, err
		}
	}
	pool := members.New(c.Option, 2*time.Second)
	defer pool.Close()
	for _, id := range p.Partitions() {
		warning, err := examine(ctx, pool, &m.Partitions[id], p.Tasks[id])
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, warning...)
	}
	return warnings, nil
}

// examine checks one partition.
func examine(ctx context.Context, pool *members.Pool, p *directory.Partition, task directory.Task) (warnings []string, err error) {
	for _, restart := range task.Restart {
		report, err := ask(ctx, pool, restart.Addr)
		switch {
		case err != nil:
			return nil, err
		case report.Run != restart.Run:
			return nil, refused("Repeat the command when millrace fleet show says healthy.", "%s, a member of partition %d, was just restarted", restart.Addr, p.ID)
		}
	}
	if task.Add == nil {
		return nil, nil
	}
	newcomer, err := ask(ctx, pool, task.Add.Addr)
	if err != nil {
		return nil, err
	}
	master, err := ask(ctx, pool, p.Master.Addr)
	if err != nil {
		return nil, err
	}
	if older(newcomer.Version, master.Version) {
		return nil, grow.ErrUnfit.Errorf("the server at %s runs %s, and cannot copy %s, which runs %s", task.Add.Addr, newcomer.Version, p.Master.Addr, master.Version).
			WithHint("Start the same version there, or a newer one.")
	}
	if task.Master != task.Add.Addr {
		return nil, nil
	}
	for _, m := range without(p, task.Remove) {
		report, err := ask(ctx, pool, m.Addr)
		if err == nil && older(report.Version, newcomer.Version) {
			warnings = append(warnings, fmt.Sprintf("partition %d will be led by %s, which runs %s. %s runs %s, and may be unable to copy it: replace or upgrade it next",
				p.ID, task.Add.Addr, newcomer.Version, m.Addr, report.Version))
		}
	}
	return warnings, nil
}

func ask(ctx context.Context, pool *members.Pool, addr string) (members.Report, error) {
	report, err := members.Ask(ctx, pool, addr, members.Examine)
	if err != nil && ctx.Err() == nil {
		err = grow.Unavailable(err, "%s does not answer", addr)
	}
	return report, err
}

// older reports whether a version's snapshots may lack the format of another one's: it is
// before that by its first two numbers. Versions of different programs cannot be compared.
func older(version, than string) bool {
	program, mine := numbers(version)
	other, theirs := numbers(than)
	return program == other && slices.Compare(mine, theirs) < 0
}

// numbers splits a version such as "7.0.15" or "valkey 8.1.0".
func numbers(version string) (program string, two []int) {
	program, number, found := strings.Cut(version, " ")
	if !found {
		program, number = "redis", version
	}
	for part := range strings.SplitSeq(number, ".") {
		n, _ := strconv.Atoi(part)
		two = append(two, n)
	}
	return program, two[:min(2, len(two))]
}
