package check

import (
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
)

// checkSpares judges whether spares can replace a member.
func checkSpares(f *facts) (l findings) {
	after := f.m.Settings.ReplaceAfter
	switch {
	case after == 0 && len(f.spares) == 0:
		return l.orOK("none are kept, and replace-after is not set")
	case after == 0:
		l.add(finding.Warning, "unused_spares", Fleetwide, "", "there are spares, and they replace nobody: replace-after is not set", "Set it: millrace fleet set replace-after 10m.")
	case len(f.spares) == 0:
		l.add(finding.Warning, "no_spare", Fleetwide, "", "members that are dead for "+readable.Duration(after)+" are to be replaced, and there is no spare", "Add one: millrace fleet spare add HOST:PORT@NODE.")
	}
	for _, s := range f.spares {
		take := "Start it, or take it back: millrace fleet spare rm " + s.Addr + "."
		switch {
		case s.err != nil:
			l.add(finding.Warning, "silent_spare", Fleetwide, s.Addr, "the spare does not answer", take)
		case s.report.Master:
			l.add(finding.Warning, "open_spare", Fleetwide, s.Addr, "the spare is not fenced: agents do not use it", "Restart it with --replicaof 127.0.0.1 1 --replica-serve-stale-data no on its command line.")
		}
	}
	return l.orOK("%s, for members that are dead for %s", readable.Count(len(f.spares), "spare"), readable.Duration(after))
}
