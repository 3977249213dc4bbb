package snapshot

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redistest"
)

func TestShare(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1", "0/3", "4/3", "-1/3", "1/0", "2/3 ", "02/3", "2/3x", "a/b"} {
		if err := new(Share).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a share", text)
		}
	}
	for parts := 1; parts < 5; parts++ {
		for id := range 40 {
			in := 0
			for part := 1; part <= parts; part++ {
				var s Share
				if err := s.UnmarshalText(fmt.Appendf(nil, "%d/%d", part, parts)); err != nil {
					t.Fatal(err)
				}
				if s.Has(id) {
					in++
				}
			}
			if in != 1 {
				t.Errorf("partition %d is in %d of %d shares", id, in, parts)
			}
		}
	}
	if s := (Share{}); !s.Has(0) || !s.Has(7) {
		t.Error("the zero share does not have all partitions")
	}
}

// archives returns, for each partition, the keepers whose folders have files of it.
func (b *bench) archives(folders map[string]string) map[int][]string {
	b.t.Helper()
	m, err := b.dir.Load(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	has := map[int][]string{}
	for keeper, folder := range folders {
		for id := range m.Partitions {
			if files, _ := filepath.Glob(filepath.Join(folder, fmt.Sprintf("*-%s-%d.rdb", m.Fleet, id))); len(files) > 0 {
				has[id] = append(has[id], keeper)
			}
		}
	}
	return has
}

// TestTwoKeepersShareTheFleet: each partition is archived by the keeper that has its share,
// and by no other. When that ends, another one with the same share takes over.
func TestTwoKeepersShareTheFleet(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 2, Partitions: 4, Replicas: devfleet.NoReplicas})
	folders := map[string]string{"first": t.TempDir(), "second": t.TempDir(), "heir": t.TempDir()}
	keeper := func(name string, share Share) *Keeper {
		return b.keeper(Config{Archive: folders[name], Name: name, Share: share, Interval: 2 * time.Second})
	}
	shares := []Share{{1, 2}, {2, 2}}
	b.run(keeper("first", shares[0]))
	endSecond := b.run(keeper("second", shares[1]))
	newest := func() map[int]directory.Archived {
		all := map[int]directory.Archived{}
		for _, s := range b.ages().Partitions {
			all[s.Partition] = s.Archived
		}
		return all
	}
	var times [4]map[time.Time]bool
	redistest.Eventually(t, "each partition is archived twice", func() bool {
		done := true
		for id, a := range newest() {
			if times[id] == nil {
				times[id] = map[time.Time]bool{}
			}
			if !a.At.IsZero() {
				times[id][a.At] = true
			}
			done = done && len(times[id]) >= 2
		}
		return done
	})
	for id, keepers := range b.archives(folders) {
		if want := []string{"first", "second"}[id%2]; len(keepers) != 1 || keepers[0] != want {
			t.Errorf("partition %d is in the archives of %v, want %s alone", id, keepers, want)
		}
	}
	for id, a := range newest() {
		name := []string{"first", "second"}[id%2]
		if want := name + ":" + filepath.Join(folders[name], a.File); a.Place() != want {
			t.Errorf("the directory says that partition %d is at %s, want %s", id, a.Place(), want)
		}
	}

	endSecond()
	b.run(keeper("heir", shares[1]))
	redistest.Eventually(t, "the heir has archived the second share", func() bool {
		all := newest()
		return all[1].Keeper == "heir" && all[3].Keeper == "heir"
	})
	for id, keepers := range b.archives(map[string]string{"heir": folders["heir"]}) {
		if id%2 == 0 {
			t.Errorf("the heir (%v) has partition %d, which is not in its share", keepers, id)
		}
	}
}

// TestAPartitionsFilesStayTogether: of two keepers with one share the one that has the
// newest file goes first.
func TestAPartitionsFilesStayTogether(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC)
	at := func(age time.Duration, keeper string) view {
		s := directory.Snapshot{Saved: directory.Saved{At: now.Add(-age)}, Archived: directory.Archived{At: now.Add(-age), Keeper: keeper}}
		return view{clock: now, m: &directory.Map{Partitions: []directory.Partition{{}}}, known: map[int]directory.Snapshot{0: s}}
	}
	mine := Config{Interval: time.Hour, Archive: "x", Name: "a"}
	disks := Config{Interval: time.Hour}
	for _, c := range []struct {
		cfg    Config
		age    time.Duration
		keeper string
		due    bool
	}{
		{mine, time.Hour, "a", true},
		{mine, time.Hour, "b", false},
		{mine, 75 * time.Minute, "b", true}, // b has ended
		{mine, time.Hour, "", true},
		{disks, time.Hour, "b", true}, // this one keeps no files
	} {
		if got := len(at(c.age, c.keeper).due(c.cfg, nil)) > 0; got != c.due {
			t.Errorf("%q has the file of %v ago: due for %q = %t, want %t", c.keeper, c.age, c.cfg.Name, got, c.due)
		}
	}
}

func TestNowOfAShare(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 2, Partitions: 3, Replicas: devfleet.NoReplicas})
	k := b.keeper(Config{Archive: t.TempDir(), Share: Share{2, 2}})
	var taken []int
	for s, err := range k.Now(deadline(t)) {
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, s.Partition)
	}
	if len(taken) != 1 || taken[0] != 1 {
		t.Errorf("Now of the share 2/2 took %v, want 1 of 0, 1 and 2", taken)
	}
	_, err := now(deadline(t), k) // of partition 0
	wantError(t, "Now of a partition of the other share", err, ErrNoPartition)
}
