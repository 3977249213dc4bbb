package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
)

// A fleet of two partitions is saved once, and the files are fetched.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	servers, err := devfleet.Start(ctx, devfleet.Config{Partitions: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Stop()
	archive, err := os.MkdirTemp("", "archive")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(archive)

	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	keeper := snapshot.New(dir, snapshot.Config{Archive: archive, Logger: slog.New(slog.DiscardHandler)})
	for s, err := range keeper.Now(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a partition is saved, and archived:", s.Archived.Bytes > 0)
	}
	ages, err := snapshot.Read(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(archive, "*.rdb"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d partitions have none; %d files\n", len(ages.Saved.None), len(files))
	// Output:
	// a partition is saved, and archived: true
	// a partition is saved, and archived: true
	// 0 partitions have none; 2 files
}
