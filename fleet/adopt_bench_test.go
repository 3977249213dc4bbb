package fleet

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// BenchmarkAdopt measures the cost of a change of the map for a process.
func BenchmarkAdopt(b *testing.B) {
	redistest.Binary(b)
	f := offline(b)
	f.members, f.scripts = map[string]*member{}, members.Scripts
	f.builder = builder()
	m := f.view.Load().m.Clone()
	m.Version = directory.Version
	for i := range 160 {
		m.Partitions = append(m.Partitions, directory.Partition{ID: i, Epoch: 1, Phase: directory.Open,
			Master: directory.Member{Addr: "m" + time.Duration(i).String()}, Replicas: []directory.Member{{Addr: "r" + time.Duration(i).String()}}})
	}
	f.view.Store(nil)
	if err := f.adopt(m, 0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m = m.Clone()
		m.Epoch++
		m.Partitions[i%160].Epoch++
		if err := f.adopt(m, 0); err != nil {
			b.Fatal(err)
		}
	}
}
