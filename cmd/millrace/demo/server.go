package demo

import (
	"context"
	"fmt"
	"net/url"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/screen"
)

// server is what a demo runs on.
type server struct {
	client rueidis.Client
	redis  string // its address, for children
	says   string // what it is, for people
	mimic  bool   // an imitation of a server
	close  func() error
}

// open connects to the server that the demo was given, or starts one and says
// so loudly.
func (cfg *Config) open(ctx context.Context, progress *screen.Screen) (*server, error) {
	if cfg.Redis != "" {
		client, err := connect.Open(cfg.Redis)
		if err != nil {
			return nil, err
		}
		s := &server{client: client, redis: cfg.Redis, says: public(cfg.Redis)}
		s.close = func() error { client.Close(); return nil }
		progress.Say("Using %s. What the demo writes there is deleted at the end.", s.says)
		return s, nil
	}

	own, err := connect.Embedded(ctx, cfg.embedded)
	if err != nil {
		return nil, err
	}
	s := &server{client: own.Client, redis: own.URL, mimic: !own.Real, close: own.Close}
	if own.Real {
		s.says = own.Kind + " (embedded, unix socket)"
		progress.Say("Started a private %s on a unix socket.", own.Kind)
	} else {
		s.says = own.Kind + " (embedded, an imitation in this process)"
		progress.Say("No redis-server on PATH: using %s, an imitation inside this process.\n"+
			"It is slow; install redis-server to see the real figures.", own.Kind)
	}
	progress.Say("NOTHING SURVIVES: the data are gone when the demo ends.\n" +
		"To run it on a server of yours, where it cleans up: --redis URL")
	return s, nil
}

// public returns an address without what may be secret in it: user, password
// and parameters.
func public(redis string) string {
	u, err := url.Parse(redis)
	if err != nil {
		return "the given server"
	}
	u.User, u.RawQuery = nil, ""
	return fmt.Sprint(u)
}
