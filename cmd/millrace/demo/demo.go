package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/screen"
)

// Config is how a demo runs. The zero value works.
type Config struct {
	// Redis is the address of the server to use, in the syntax of the --redis
	// flag. Defaults to a server of the demo's own.
	Redis string

	// Progress is told what is going on, in lines for people. Defaults to
	// nobody.
	Progress io.Writer

	// Live says that Progress is a terminal, on which progress is redrawn in
	// place. Defaults to a line every two seconds.
	Live bool

	// Duration is how long each scene makes load; starting and draining come on
	// top. Defaults to each scene's own, one to five seconds.
	Duration time.Duration

	scenes   []scene                // the tests play some
	child    []string               // starts a child, its scene is appended; the tests have their own
	embedded connect.EmbeddedConfig // the tests choose what is found
}

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	if cfg.scenes == nil {
		cfg.scenes = scenes()
	}
	if cfg.embedded.Find == nil {
		cfg.embedded.Find = redisproc.Find
	}
	if cfg.child == nil {
		self, err := os.Executable()
		if err != nil {
			return cfg, fmt.Errorf("the demo starts its own binary as child processes, but cannot find it: %w", err)
		}
		cfg.child = []string{self, childArgument}
	}
	return cfg, nil
}

// Run plays all scenes and reports what they saw. Scenes whose checks do not
// hold are in the report, which is then not OK, and are no error; neither are
// scenes that need what is not there, which are skipped. An error means that the
// demo could not be played to its end: no server, a server that refuses, a
// context that ended. The report then has the scenes before.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return report, err
	}
	progress := screen.New(cfg.Progress, cfg.Live)
	server, err := cfg.open(ctx, progress)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, server.close()) }()

	report = Report{OK: true, Server: server.says, Scenes: []Scene{}}
	for _, s := range cfg.scenes {
		seen, err := s.run(ctx, &stage{
			client:   server.client,
			redis:    server.redis,
			mimic:    server.mimic,
			name:     "demo-" + strings.ToLower(rand.Text()[:10]),
			duration: cmp.Or(cfg.Duration, s.load),
			screen:   progress,
			find:     cfg.embedded.Find,
			child:    append(slices.Clip(cfg.child), s.name),
		})
		if err != nil {
			report.OK = false
			return report, fmt.Errorf("scene %s: %w", s.name, err)
		}
		report.OK = report.OK && seen.OK
		report.Scenes = append(report.Scenes, seen)
	}
	return report, nil
}
