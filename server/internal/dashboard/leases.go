package dashboard

import (
	"time"

	"github.com/millrace/millrace/internal/survey"
)

// leasePage is the leases that Redis knows of.
type leasePage struct {
	heading

	Looked  bool
	Held    int
	Rows    []leaseRow
	LeftOut int
}

// leaseRow is one lease.
type leaseRow struct {
	Name      string
	Held      bool
	Metadata  string
	Fence     int64
	Remaining time.Duration
	Deadline  time.Time
	Soon      bool // it ends within seconds
}

func (d *Dashboard) leases(*asked) (scene, error) {
	return func(v *survey.View) body {
		p := leasePage{heading: heading{Title: "Leases"}, Looked: !v.Named.IsZero(), LeftOut: v.LeftOut[survey.Lease]}
		late := max(0, time.Since(v.At)) // what remains was read then
		for _, l := range v.Leases {
			row := leaseRow{Name: l.Name, Held: l.Held, Metadata: l.Metadata, Fence: l.Fence, Deadline: l.Deadline}
			if l.Held {
				p.Held++
				row.Remaining = max(0, l.Remaining-late)
				row.Soon = row.Remaining < 5*time.Second
			}
			p.Rows = append(p.Rows, row)
		}
		return p
	}, nil
}
