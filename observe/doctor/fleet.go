package doctor

import (
	"context"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/check"
)

// checkFleet runs the checks of a fleet but the look-up of tags, and joins findings that say
// the same of several members.
func checkFleet(ctx context.Context, f *fleet.Fleet) (findings []Finding, err error) {
	found, err := check.Run(ctx, f, check.Config{})
	for _, g := range check.Groups(found) {
		findings = append(findings, of(g.Severity, g.Code, g.String(), g.Advice).in(g.Check))
	}
	return findings, err
}
