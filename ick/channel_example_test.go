package ick_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/ick"
)

func openChannel(client rueidis.Client, cfg ick.ChannelConfig) *ick.Channel {
	channel, err := ick.NewChannel(client, "documents", cfg)
	if err != nil {
		log.Fatal(err)
	}
	return channel
}

func ExampleChannel() {
	client, closeAll := connect()
	defer closeAll()
	channel := openChannel(client, ick.ChannelConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := channel.AddNow(ctx, "doc:1", "doc:2", "doc:1"); err != nil {
		log.Fatal(err)
	}

	// Run this in as many processes as there is work for.
	seen := make(chan string)
	done := make(chan error)
	go func() {
		done <- channel.Consume(ctx, ick.ConsumeConfig{}, func(_ context.Context, batch []ick.Entry) error {
			for _, e := range batch {
				seen <- e.Member
			}
			return nil
		})
	}()
	fmt.Println(len(<-seen)+len(<-seen), "bytes of members")
	cancel()
	fmt.Println(errors.Is(<-done, context.Canceled))
	// Output:
	// 10 bytes of members
	// true
}

func ExampleChannel_Resize() {
	client, closeAll := connect()
	defer closeAll()
	channel := openChannel(client, ick.ChannelConfig{Size: 4})
	ctx := context.Background()
	_, _ = channel.AddNow(ctx, "doc:1", "doc:2")

	if err := channel.Resize(ctx, 2); err != nil {
		log.Fatal(err)
	}
	s, err := channel.Stats(ctx)
	fmt.Println(s.Size, "in use,", len(s.Icks), "served,", s.Total, "marks", err)
	// Output: 2 in use, 4 served, 2 marks <nil>
}

// A team whose Ruby producers pick the Ick by the number in the identifier.
func ExampleChannelConfig_shard() {
	client, closeAll := connect()
	defer closeAll()
	channel := openChannel(client, ick.ChannelConfig{
		Size: 4,
		Shard: func(member string, size int) int {
			var number int
			_, _ = fmt.Sscanf(strings.TrimPrefix(member, "doc:"), "%d", &number)
			return number % size
		},
	})
	_, _ = channel.AddNow(context.Background(), "doc:7")

	k, _ := ick.New(client, channel.Name()+"/3", ick.Config{})
	r, err := k.Reserve(context.Background(), 1)
	fmt.Println(k.Name(), r.Members(), err)
	// Output: documents/3 [doc:7] <nil>
}
