package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/address"
	"github.com/millrace/millrace/internal/redis/retry"
)

// ErrURL means that a URL is invalid, or names a kind of server that this package does not open.
var ErrURL = &millrace.Error{
	Code:    "bad_url",
	Message: "the Redis URL cannot be used",
	Hint:    "Give redis://HOST:PORT, rediss://HOST:PORT, unix:///path/to/socket, or redis://SENTINEL:PORT?master_set=NAME.",
}

// ErrConnect means that a URL is valid but its server cannot be reached.
var ErrConnect = &millrace.Error{
	Code:    "unreachable",
	Message: "cannot connect to Redis",
	Hint:    "Check that the server runs and that the URL names it.",
}

// sentinelRefresh is the interval at which a client asks the sentinels for the master, in
// case it missed their event.
const sentinelRefresh = 5 * time.Second

// Redis returns a connected client for a URL. The package comment describes URLs.
//
// The changes, if any, see the options as the URL and this package set them, and may set options
// that a URL cannot hold: a certificate of the client, a function that returns credentials.
//
// The context bounds connecting, which also ends after the URL's dial_timeout an address, 5
// seconds by default. It does not bound the life of the client: close that when done.
//
// Errors: [ErrURL], [ErrConnect], and the cause of a context that ended.
func Redis(ctx context.Context, url string, change ...func(*rueidis.ClientOption)) (rueidis.Client, error) {
	opt, err := Options(url)
	if err != nil {
		return nil, err
	}
	for _, change := range change {
		change(&opt)
	}
	return connect(ctx, opt, address.Redacted(url))
}

// With is [Redis] for a program that has options and no URL. It sets the options that structures
// need: see [Options].
func With(ctx context.Context, opt rueidis.ClientOption) (rueidis.Client, error) {
	prepare(&opt)
	shown := strings.Join(opt.InitAddress, ", ")
	if opt.Sentinel.MasterSet != "" {
		shown = opt.Sentinel.MasterSet + " by the sentinels " + shown
	}
	return connect(ctx, opt, shown)
}

// Options returns the options for a URL, for callers that connect later, as scatter does.
// They are those of rueidis.ParseURL, whose parameters a URL may have, and those that structures
// want. Client-side caching is off, which structures do not use. Commands always go through
// the connection's pipeline, so that a call whose context is cancelled returns at once. CLIENT
// SETINFO is not sent, since a restricted user may not. The sentinels are asked for the master
// every five seconds, in case a client missed their event.
//
// Errors: [ErrURL].
func Options(rawURL string) (opt rueidis.ClientOption, err error) {
	if rawURL == "" {
		return opt, ErrURL.Errorf("the Redis URL is empty")
	}
	if strings.HasPrefix(rawURL, "etcd://") || strings.HasPrefix(rawURL, "etcds://") {
		return opt, noFleet("this") // package url does not read lists of hosts
	}
	if isList(rawURL) {
		failed := ErrURL.Errorf("a list of servers cannot be used here")
		failed.Hint = "Name one Redis. Several seeds of one cluster are written redis://HOST:PORT?addr=HOST2:PORT2."
		return opt, failed
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error may quote the password.
		failed := ErrURL.Errorf("the Redis URL is malformed")
		failed.Hint = ErrURL.Hint + " Special characters in a user or password are percent-encoded."
		return opt, failed
	}
	shown := address.Redacted(rawURL)

	switch {
	case u.Scheme == "fleet" || u.Scheme == "fleets":
		return opt, noFleet(shown)
	case u.Scheme == "unix" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
		failed := ErrURL.Errorf("%s: the path of a socket must be absolute", shown)
		failed.Hint = "Write unix:///path/to/socket, with three slashes."
		return opt, failed
	}
	if opt, err = rueidis.ParseURL(rawURL); err != nil {
		if strings.Contains(shown, address.Hidden) {
			return opt, ErrURL // the unreadable part may be the password
		}
		return opt, ErrURL.Errorf("the Redis URL %s cannot be used", shown).Wrap(err)
	}
	prepare(&opt)
	return opt, nil
}

// prepare sets the options that structures need.
func prepare(opt *rueidis.ClientOption) {
	opt.DisableCache = true
	opt.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may not
	opt.AlwaysPipelining = true
	if opt.Sentinel.MasterSet != "" && opt.Sentinel.TopologyRefreshInterval == 0 {
		opt.Sentinel.TopologyRefreshInterval = sentinelRefresh
	}
}

// connect connects for as long as ctx lets it: rueidis.NewClient takes no context. A client
// that comes after that is closed.
func connect(ctx context.Context, opt rueidis.ClientOption, shown string) (rueidis.Client, error) {
	type opened struct {
		client rueidis.Client
		err    error
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	done := make(chan opened, 1)
	go func() {
		client, err := rueidis.NewClient(opt)
		done <- opened{client, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, ErrConnect.Errorf("cannot connect to Redis at %s", shown).Wrap(o.err).WithHint(advice(o.err, opt))
		}
		return o.client, nil
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				o.client.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// noFleet refuses the URL of a fleet.
func noFleet(shown string) error {
	return ErrURL.Errorf("%s is a fleet, and one Redis is needed here", shown).
		WithHint("Give the URL of one Redis, of a Sentinel set or of a Redis Cluster. Programs open fleets with fleet.Dial, or etcd.Dial of package fleet/etcd.")
}

// isList reports whether the text names several servers with commas: hosts,
// or whole URLs. A password may hold commas.
func isList(rawURL string) bool {
	for i, part := range strings.Split(rawURL, ",") {
		if i > 0 && strings.Contains(part, "://") {
			return true
		}
	}
	_, rest, _ := strings.Cut(rawURL, "://")
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	return strings.Contains(authority[strings.LastIndex(authority, "@")+1:], ",")
}

// advice returns what to do about a failed connection.
func advice(err error, opt rueidis.ClientOption) string {
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isTLS := errors.AsType[*tls.CertificateVerificationError](err)
	reply, isReply := rueidis.IsRedisErr(err)
	// Sentinels have no code for a master that they do not know, and servers none for a
	// password where none is set.
	switch {
	case isReply && reply.IsNil(), isReply && strings.Contains(reply.Error(), "No such master"):
		return "The sentinels do not watch a master named " + opt.Sentinel.MasterSet + ": check master_set."
	case retry.Code(err, "LOADING"):
		return "The server is loading its data: try again in a while."
	case retry.Code(err, "NOAUTH"), retry.Code(err, "WRONGPASS"), isReply && !retry.Denied(err) && strings.Contains(reply.Error(), "AUTH"):
		return "Give the right user and password: redis://USER:PASSWORD@HOST:PORT, special characters percent-encoded."
	case isTLS:
		return "Name the host as the server's certificate does, and trust who signed that: SSL_CERT_FILE names a file of such certificates."
	case isDNS:
		return "Check the host's name."
	case errors.Is(err, fs.ErrNotExist):
		return "There is no such socket: start the server with --unixsocket, or check the path."
	case errors.Is(err, fs.ErrPermission):
		return "This user may not open the socket: check its permissions (unixsocketperm)."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens there: start redis-server, or check host and port."
	default:
		return ErrConnect.Hint
	}
}
