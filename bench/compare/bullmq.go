package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

//go:embed bullmq
var bullmqFiles embed.FS

var bullmqPeer = &peer{
	Name: "bullmq", Title: "BullMQ", Version: "6.7.0", batches: true, queues: true, queuesName: "BullMQ, a queue per tenant",
	Settings: []setting{
		{"`concurrency` as many as the others have handlers, in one process", "each system has one worker process, and these handlers compute nothing"},
		{"`addBulk`", "it writes a batch in one transaction"},
		{"`enableAutoPipelining` of ioredis", "calls that are made together share a write to the socket; writes are 1.5 times as fast here"},
		{"`removeOnComplete`", "by default all finished jobs stay in Redis"},
		{"a queue per tenant: a `Worker` each with `concurrency` of half of the handlers, with a semaphore over all", "groups are for customers of BullMQ Pro; so one tenant cannot take all handlers, but two slow ones can"},
		{"`lockDuration` 5 s, `stalledInterval` 1 s, `maxStalledCount` 10 in the crashes", "defaults are 30 s, 30 s, and failing at the second crash"},
	},
	missing: func() string { return installBullMQ().why },
	command: func(ctx context.Context, j *job) (*exec.Cmd, error) {
		text, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "node", filepath.Join(installBullMQ().folder, "bullmq", "job.mjs"))
		cmd.Env = append(os.Environ(), "JOB="+string(text))
		return cmd, nil
	},
}

type installed struct{ folder, why string }

// installBullMQ installs BullMQ in a temporary folder, once.
var installBullMQ = sync.OnceValue(func() installed {
	folder, err := os.MkdirTemp("", "millrace-bullmq")
	if err != nil {
		return installed{why: err.Error()}
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return installed{folder: folder, why: "there is no " + name + " on PATH"}
		}
	}
	npm := exec.Command("npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
	npm.Dir = filepath.Join(folder, "bullmq")
	if err := os.CopyFS(folder, bullmqFiles); err != nil {
		return installed{folder: folder, why: err.Error()}
	}
	if out, err := npm.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out)
		return installed{folder: folder, why: errors.Join(errors.New("npm did not install it"), err).Error()}
	}
	return installed{folder: folder}
})
