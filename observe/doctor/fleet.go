package doctor

import (
	"context"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// levelOf has the levels of package check as the doctor says them.
var levelOf = map[check.Level]Level{directory.OK: OK, directory.Unknown: Note, directory.Warn: Warn, directory.Fail: Fail}

// checkFleet runs the checks of a fleet but the look-up of tags, and joins findings that say
// the same of several members.
func checkFleet(ctx context.Context, f *fleet.Fleet) (findings []Finding, err error) {
	found, err := check.Run(ctx, f, check.Config{})
	for _, g := range check.Groups(found) {
		findings = append(findings, Finding{Check: g.Check, Level: levelOf[g.Level], Value: g.String(), Hint: g.Hint})
	}
	return findings, err
}
