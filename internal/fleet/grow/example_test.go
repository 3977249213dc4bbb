package grow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// A fleet is made of empty servers: one for the directory, which writes each change to its disk
// before it answers, and a master, and replicas if there are to be any, for each partition.
func ExampleInit() {
	ctx := context.Background()
	var addrs []string
	for i := range 3 {
		cfg := redisproc.Config{TCP: true}
		if i == 0 {
			cfg.AOF, cfg.Args = true, []string{"--appendfsync", "always"}
		}
		server, err := redisproc.Start(ctx, cfg)
		if err != nil {
			log.Fatal(err)
		}
		defer server.Stop()
		addrs = append(addrs, server.Addr())
	}
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: addrs[:1]})
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	m, err := grow.Init(ctx, dir, []grow.Partition{
		{Master: directory.Member{Addr: addrs[1], Node: "a"}},
		{Master: directory.Member{Addr: addrs[2], Node: "b"}, Weight: 2},
	}, grow.Config{RestartTimeout: -1}) // the servers of this example are not started again
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Epoch, len(m.Partitions), len(m.Points))
	// Output: 1 2 3
}
