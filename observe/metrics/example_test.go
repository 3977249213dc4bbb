package metrics_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/observe/metrics"
	"github.com/millrace/millrace/observe/metrics/ickmetrics"
	"github.com/millrace/millrace/observe/metrics/stealmetrics"
	"github.com/millrace/millrace/steal"
)

// connect stands for the client that a program has anyway.
func connect() (rueidis.Client, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := dial.Redis(context.Background(), "redis://"+server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}

// show stands for the /metrics of a program, which promhttp.HandlerFor serves.
func show(registry *prometheus.Registry, names ...string) {
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		for _, name := range names {
			if family.GetName() != name {
				continue
			}
			for _, m := range family.GetMetric() {
				var labels []string
				for _, pair := range m.GetLabel() {
					labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
				}
				fmt.Printf("%s{%s} %v\n", name, strings.Join(labels, ","), m.GetCounter().GetValue()+m.GetGauge().GetValue())
			}
		}
	}
}

func Example() {
	client, closeAll := connect()
	defer closeAll()

	// One Hook for all structures, and a collector for each.
	registry := prometheus.NewRegistry()
	hook, err := metrics.New(registry)
	if err != nil {
		log.Fatal(err)
	}
	dirty, err := ick.New(client, "documents", ick.Config{Hooks: []millrace.Hook{hook}})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"doc:1", "doc:2"} {
		if _, err := dirty.AddNow(context.Background(), id); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := dirty.Reserve(context.Background(), 1); err != nil {
		log.Fatal(err)
	}
	show(registry, "millrace_calls_total")

	if err := registry.Register(ickmetrics.Collector(dirty)); err != nil {
		log.Fatal(err)
	}
	show(registry, "millrace_ick_marks", "millrace_ick_new_total", "millrace_ick_up")
	// Output:
	// millrace_calls_total{outcome="ok",script="ick.add"} 2
	// millrace_calls_total{outcome="ok",script="ick.exchange"} 1
	// millrace_ick_marks{ick="documents",state="parked"} 0
	// millrace_ick_marks{ick="documents",state="reserved"} 1
	// millrace_ick_marks{ick="documents",state="waiting"} 1
	// millrace_ick_new_total{ick="documents"} 2
	// millrace_ick_up{ick="documents"} 1
}

func Example_channel() {
	client, closeAll := connect()
	defer closeAll()
	channel, err := ick.NewChannel(client, "documents", ick.ChannelConfig{Size: 2})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(ickmetrics.Collector(channel)); err != nil {
		log.Fatal(err)
	}
	if _, err := channel.AddNow(context.Background(), "doc:1", "doc:2", "doc:10"); err != nil {
		log.Fatal(err)
	}
	show(registry, "millrace_channel_consumers", "millrace_channel_members", "millrace_channel_unowned_icks")
	// Output:
	// millrace_channel_consumers{channel="documents"} 0
	// millrace_channel_members{channel="documents",ick="0"} 1
	// millrace_channel_members{channel="documents",ick="1"} 2
	// millrace_channel_unowned_icks{channel="documents"} 2
}

func ExampleCollector() {
	registry := prometheus.NewRegistry()
	hook, err := metrics.New(registry)
	if err != nil {
		log.Fatal(err)
	}
	recruiter := steal.New(steal.Config{Hooks: []millrace.Hook{hook}})
	if err := registry.Register(stealmetrics.Collector(recruiter)); err != nil {
		log.Fatal(err)
	}
	sweep := millrace.Job{
		Name:  "sessions.sweep",
		Slice: func(context.Context) (millrace.Progress, error) { return millrace.Idle, nil },
	}
	if err := recruiter.Install(sweep, 1); err != nil { // a program would say 0.003
		log.Fatal(err)
	}
	recruiter.Enlist(context.Background())
	show(registry, "millrace_steal_recruited_total", "millrace_steal_rate")
	// Output:
	// millrace_steal_rate{task="sessions.sweep"} 1
	// millrace_steal_recruited_total{outcome="idle",task="sessions.sweep",via="draw"} 1
}
