package demo

import (
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
)

// DurationDefault is how long a scene makes load.
const DurationDefault = 8 * time.Second

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

	// Duration is how long a scene makes load; starting and draining come on
	// top. Defaults to [DurationDefault].
	Duration time.Duration

	child    []string               // starts a child, its scene is appended; the tests have their own
	embedded connect.EmbeddedConfig // the tests choose what is found
}

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	if cfg.Duration == 0 {
		cfg.Duration = DurationDefault
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
// hold are in the report, which is then not OK, and are no error. An error
// means that the demo could not be played to its end: no server, a server that
// refuses, a context that ended. The report then has the scenes before.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return report, err
	}
	screen := &screen{w: cfg.Progress, live: cfg.Live}
	server, err := cfg.open(ctx, screen)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, server.close()) }()

	report = Report{OK: true, Server: server.says, Scenes: []Scene{}}
	for _, s := range scenes() {
		seen, err := s.run(ctx, &stage{
			client:   server.client,
			redis:    server.redis,
			name:     "demo-" + strings.ToLower(rand.Text()[:10]),
			duration: cfg.Duration,
			screen:   screen,
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
