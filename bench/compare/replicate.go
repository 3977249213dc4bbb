package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/shuffleshard"
)

// replicateFolder is the environment variable with a folder that holds github.com/replicate/go,
// whose scripts are no part of this program.
const replicateFolder = "MILLRACE_BENCH_REPLICATE"

// Settings of Replicate's library: the streams of a queue, those of a tenant, and the seconds
// after which Redis forgets a queue.
const (
	replicateStreams  = 64
	replicateOfTenant = 4
	replicateTTL      = "3600"
)

var replicatePeer = &peer{
	Name: "replicate", Title: "Replicate's scripts", Version: "their main branch",
	Settings: []setting{
		{"64 streams, 4 of them for each tenant", "as many as `Streams` has in our examples"},
		{"`XREADGROUP BLOCK 1000` of the notifications when the read script finds nothing", "their library waits so"},
		{"`XACK` and `XDEL` in one pipeline", "their library leaves the end to its caller"},
		{"`rueidis` instead of go-redis", "the client is that of Millrace and of the stream"},
	},
	missing: func() string {
		if _, err := replicateScripts(); err != nil {
			return err.Error()
		}
		return ""
	},
	connect: func(ctx context.Context, j *job) (system, error) {
		scripts, err := replicateScripts()
		if err != nil {
			return nil, err
		}
		client, err := dial.Redis(ctx, j.URL)
		if err != nil {
			return nil, err
		}
		s := &replicateSystem{client: client, job: j, writing: scripts[0], reading: scripts[1]}
		if err := s.createGroup(ctx); err != nil {
			client.Close()
			return nil, err
		}
		return s, nil
	},
}

// replicateScripts returns the scripts that write a message and read one.
func replicateScripts() (scripts [2]*rueidis.Lua, err error) {
	folder := os.Getenv(replicateFolder)
	if folder == "" {
		return scripts, errors.New(replicateFolder + " names no folder with github.com/replicate/go")
	}
	for i, name := range []string{"write.lua", "read.lua"} {
		text, err := os.ReadFile(filepath.Join(folder, "queue", name)) //nolint:gosec // the caller names the folder
		if err != nil {
			return scripts, fmt.Errorf("%s: %w", replicateFolder, err)
		}
		scripts[i] = rueidis.NewLuaScript(string(text))
	}
	return scripts, nil
}

type replicateSystem struct {
	client           rueidis.Client
	job              *job
	writing, reading *rueidis.Lua
}

const (
	replicateQueue         = "compared"
	replicateNotifications = replicateQueue + ":notifications"
)

// createGroup creates the group of the notifications. The read script creates the others.
func (s *replicateSystem) createGroup(ctx context.Context) error {
	err := s.client.Do(ctx, s.client.B().XgroupCreate().Key(replicateNotifications).Group(streamGroup).Id("0").Mkstream().Build()).Error()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}

func (s *replicateSystem) write(ctx context.Context, messages []message) error {
	for _, m := range messages {
		args := []string{replicateTTL, strconv.Itoa(replicateStreams), strconv.Itoa(replicateOfTenant)}
		for _, stream := range shuffleshard.Get(replicateStreams, replicateOfTenant, tenantName(m.tenant)) {
			args = append(args, strconv.Itoa(stream))
		}
		if err := s.writing.Exec(ctx, s.client, []string{replicateQueue}, append(args, "b", m.body)).Error(); err != nil {
			return err
		}
	}
	return nil
}

func (s *replicateSystem) work(ctx context.Context, handle func(body string)) error {
	return loops(ctx, s.job.Concurrency, func(ctx context.Context, goroutine int) error {
		consumer := fmt.Sprintf("%d-%d", os.Getpid(), goroutine)
		read, err := s.reading.Exec(ctx, s.client, []string{replicateQueue}, []string{replicateTTL, streamGroup, consumer}).AsXRead()
		if rueidis.IsRedisNil(err) {
			return s.wait(ctx, consumer)
		}
		for stream, entries := range read {
			for _, e := range entries {
				handle(e.FieldValues["b"])
				for _, reply := range s.client.DoMulti(ctx,
					s.client.B().Xack().Key(stream).Group(streamGroup).Id(e.ID).Build(),
					s.client.B().Xdel().Key(stream).Id(e.ID).Build()) {
					err = errors.Join(err, reply.Error())
				}
			}
		}
		return err
	})
}

// wait waits until a message is written that no other reader was told of, for a second at most.
func (s *replicateSystem) wait(ctx context.Context, consumer string) error {
	err := s.client.Do(ctx, s.client.B().Xreadgroup().Group(streamGroup, consumer).Count(1).Block(1000).Noack().
		Streams().Key(replicateNotifications).Id(">").Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

func (s *replicateSystem) close() { s.client.Close() }
