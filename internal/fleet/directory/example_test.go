package directory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// connect stands for a Redis of the directory's own.
func connect() (*directory.Directory, func()) {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		log.Fatal(err)
	}
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{redis.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() {
		dir.Close()
		redis.Close()
	}
}

func Example() {
	dir, closeAll := connect()
	defer closeAll()
	ctx := context.Background()

	points, err := ring.New(slices.Repeat([]int{1}, 1)...)
	if err != nil {
		log.Fatal(err)
	}
	err = dir.Change(ctx, 0, &directory.Map{
		Version: directory.Version, Fleet: "example", Epoch: 1, Floor: 1, Points: points.Points(),
		Partitions: []directory.Partition{{
			Phase: directory.Open, Master: directory.Member{Addr: "10.0.0.1:6379"}, Replicas: []directory.Member{{Addr: "10.0.0.2:6379"}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}

	// A client has no map at first.
	m, err := dir.Confirm(ctx, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the client goes by epoch", m.Epoch, "and writes to", m.Partitions[0].Master.Addr)

	// An agent makes the replica master.
	next := m.Clone()
	next.Epoch++
	p := &next.Partitions[0]
	p.Master, p.Replicas[0] = p.Replicas[0], p.Master
	if err := dir.Change(ctx, m.Epoch, next); err != nil {
		log.Fatal(err)
	}
	// A second change of the same map comes too late.
	late := m.Clone()
	late.Epoch++
	fmt.Println("a conflict:", errors.Is(dir.Change(ctx, m.Epoch, late), directory.ErrConflict))

	// The client asks whether its map is still the present one.
	for {
		newer, err := dir.Confirm(ctx, m.Epoch)
		if err != nil {
			log.Fatal(err)
		}
		if newer == nil {
			break
		}
		m = newer
	}
	fmt.Println("the client goes by epoch", m.Epoch, "and writes to", m.Partitions[0].Master.Addr)
	// Output:
	// the client goes by epoch 1 and writes to 10.0.0.1:6379
	// a conflict: true
	// the client goes by epoch 2 and writes to 10.0.0.2:6379
}
