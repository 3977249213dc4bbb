package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/retry"
)

// pickup returns a percentile of times, in a unit.
func pickup(times func(context.Context, setup) ([]time.Duration, error), percent int, unit time.Duration) func(context.Context, setup) (float64, error) {
	return func(ctx context.Context, s setup) (float64, error) {
		took, err := times(ctx, s)
		if err != nil {
			return 0, err
		}
		slices.Sort(took)
		return float64(took[len(took)*percent/100]) / float64(unit), nil
	}
}

func queuePickups(ctx context.Context, s setup) ([]time.Duration, error) {
	reader, err := freshQueue(ctx, s, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	writer, err := fairqueue.New(s.client, reader.Name(), fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	draft := drafts(1)[0]
	var before []fairqueue.Message
	return pickups(ctx, s, func(ctx context.Context) (err error) {
		if _, err := reader.Ack(ctx, receipts(before)...); err != nil {
			return err
		}
		before, err = reader.Read(ctx, fairqueue.ReadConfig{Block: -1})
		return err
	}, func(ctx context.Context) error {
		_, err := writer.Write(ctx, draft)
		return err
	})
}

func barePickups(ctx context.Context, s setup) ([]time.Duration, error) {
	if err := empty(ctx, s); err != nil {
		return nil, err
	}
	body := strings.Repeat("x", bodySize)
	return pickups(ctx, s, func(ctx context.Context) error {
		return s.client.Do(ctx, s.client.B().Blpop().Key("list").Timeout(0).Build().UnblockOnCancel()).Error()
	}, func(ctx context.Context) error {
		return s.client.Do(ctx, s.client.B().Rpush().Key("list").Element(body).Build()).Error()
	})
}

// pickups sends to a receiver that is blocked on the server, again and again, and
// returns how long it took each time from before send until receive has returned.
func pickups(ctx context.Context, s setup, receive, send func(context.Context) error) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type arrival struct {
		at  time.Time
		err error
	}
	var took []time.Duration
	for start := time.Now(); len(took) == 0 || time.Since(start) < s.time; {
		arrived := make(chan arrival, 1)
		go func() {
			err := receive(ctx)
			arrived <- arrival{time.Now(), err}
		}()
		if err := blocked(ctx, s); err != nil {
			return nil, err
		}
		sent := time.Now()
		if err := send(ctx); err != nil {
			return nil, err
		}
		a := <-arrived
		if a.err != nil {
			return nil, a.err
		}
		took = append(took, a.at.Sub(sent))
	}
	return took, nil
}

// blocked waits until a client is blocked on the server, for ten seconds at most.
func blocked(ctx context.Context, s setup) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		clients, err := info(ctx, s, "clients")
		if err != nil || clients["blocked_clients"] != "0" {
			return err
		}
	}
}

func info(ctx context.Context, s setup, section string) (map[string]string, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section(section).Build()).ToString()
	values := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			values[name] = value
		}
	}
	return values, err
}

func queueIdle(ctx context.Context, s setup) (float64, error) {
	q, err := freshQueue(ctx, s, fairqueue.Config{})
	if err != nil {
		return 0, err
	}
	return idle(ctx, s, func(ctx context.Context) {
		var readers sync.WaitGroup
		for range goroutines {
			readers.Go(func() { _, _ = q.Read(ctx, fairqueue.ReadConfig{Block: -1}) })
		}
		readers.Wait()
	})
}

func bareIdle(ctx context.Context, s setup) (float64, error) {
	if err := empty(ctx, s); err != nil {
		return 0, err
	}
	return idle(ctx, s, func(ctx context.Context) {
		for ctx.Err() == nil {
			_ = s.client.Do(ctx, s.client.B().Blpop().Key("list").Timeout(1).Build().UnblockOnCancel()).Error()
		}
	})
}

// idle returns how many commands a second travel to the server while read finds
// nothing.
func idle(ctx context.Context, s setup, read func(context.Context)) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() { read(ctx) })
	if err := blocked(ctx, s); err != nil {
		return 0, err
	}
	// From one burst of commands to another, so that whole periods are counted.
	before, err := sent(ctx, s)
	if err != nil {
		return 0, err
	}
	first, err := burst(ctx, s, before)
	if err != nil {
		return 0, err
	}
	start, last := time.Now(), first
	for last == first || time.Since(start) < 3*s.time {
		if last, err = burst(ctx, s, last); err != nil {
			return 0, err
		}
	}
	return float64(last-first) / time.Since(start).Seconds(), nil
}

// burst waits until there were more than some commands, and for those that come
// with the next one, and returns how many there were.
func burst(ctx context.Context, s setup, before int) (int, error) {
	for now := before; now <= before; {
		if !retry.Sleep(ctx, 10*time.Millisecond) {
			return 0, context.Cause(ctx)
		}
		var err error
		if now, err = sent(ctx, s); err != nil {
			return 0, err
		}
	}
	retry.Sleep(ctx, 100*time.Millisecond)
	return sent(ctx, s)
}

// sent returns how many of the commands with which readers ask and wait have come
// to the server. Its statistics also count what scripts call, but these no script
// can call, or has a use for.
func sent(ctx context.Context, s setup) (int, error) {
	stats, err := info(ctx, s, "commandstats")
	sum := 0
	for _, name := range []string{"eval", "evalsha", "blpop"} {
		count, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+name], "calls="), ",")
		if count == "" {
			continue
		}
		n, wrong := strconv.Atoi(count)
		if wrong != nil {
			return 0, fmt.Errorf("statistics of %s: %w", name, wrong)
		}
		sum += n
	}
	return sum, err
}
