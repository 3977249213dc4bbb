package connect

import (
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
)

// ErrURL means that a URL is invalid, or names a kind of server that Open does not support.
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

// Open returns a client for a URL, connected. The package comment lists what a
// URL may be; rueidis.ParseURL has the parameters. Client-side caching is off
// whatever the URL says: structures read what they must not read stale.
// Commands always go through the connection's pipeline, so that a call whose
// context is cancelled returns at once.
//
// Errors are ErrURL or ErrConnect. Connecting takes at most the URL's
// dial_timeout an address, 5 seconds by default.
func Open(rawURL string) (rueidis.Client, error) {
	opt, shown, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		failed := ErrConnect.Errorf("cannot connect to Redis at %s", shown).Wrap(err)
		failed.Hint = advice(err, opt)
		return nil, failed
	}
	return client, nil
}

// Options returns the options for several servers, whose URLs are separated by commas, for
// callers that connect later; and the URLs without passwords. Errors are ErrURL.
func Options(rawURLs string) (options []rueidis.ClientOption, shown []string, err error) {
	for _, rawURL := range split(rawURLs) {
		opt, url, err := parse(rawURL)
		if err != nil {
			return nil, nil, err
		}
		options, shown = append(options, opt), append(shown, url)
	}
	return options, shown, nil
}

// split cuts a list where another URL begins: a password may hold commas.
func split(rawURLs string) (list []string) {
	for i, part := range strings.Split(rawURLs, ",") {
		if i > 0 && !strings.Contains(part, "://") && !strings.HasPrefix(part, "unix:") {
			list[len(list)-1] += "," + part
			continue
		}
		list = append(list, part)
	}
	return list
}

// parse returns the options for a URL, and the URL as it may be shown.
func parse(rawURL string) (opt rueidis.ClientOption, shown string, err error) {
	if rawURL == "" {
		return opt, "", ErrURL.Errorf("the Redis URL is empty")
	}
	if strings.HasPrefix(rawURL, "etcd://") || strings.HasPrefix(rawURL, "etcds://") {
		return opt, "", noFleet("this") // package url does not read lists of hosts
	}
	if isList(rawURL) {
		failed := ErrURL.Errorf("a list of servers cannot be used here")
		failed.Hint = "Name one Redis. Several seeds of one cluster are written redis://HOST:PORT?addr=HOST2:PORT2."
		return opt, "", failed
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error may quote the password.
		failed := ErrURL.Errorf("the Redis URL is malformed")
		failed.Hint = ErrURL.Hint + " Special characters in a user or password are percent-encoded."
		return opt, "", failed
	}
	shown = redacted(u, rawURL)

	switch {
	case u.Scheme == "fleet" || u.Scheme == "fleets":
		return opt, "", noFleet(shown)
	case u.Scheme == "unix" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
		failed := ErrURL.Errorf("%s: the path of a socket must be absolute", shown)
		failed.Hint = "Write unix:///path/to/socket, with three slashes."
		return opt, "", failed
	}
	if opt, err = rueidis.ParseURL(rawURL); err != nil {
		if strings.Contains(shown, hidden) {
			return opt, "", ErrURL // the unreadable part may be the password
		}
		return opt, "", ErrURL.Errorf("the Redis URL %s cannot be used", shown).Wrap(err)
	}
	opt.DisableCache = true
	opt.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may not
	opt.AlwaysPipelining = true
	if opt.Sentinel.MasterSet != "" {
		opt.Sentinel.TopologyRefreshInterval = sentinelRefresh
	}
	return opt, shown, nil
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

// hidden stands for a URL that cannot be shown.
const hidden = "(not shown: it may hold a password)"

// redacted returns the URL without its password. An @ in a URL without a user shows that the
// password has characters that should have been encoded.
func redacted(u *url.URL, rawURL string) string {
	if u.User == nil && u.Scheme != "unix" && strings.Contains(rawURL, "@") {
		return hidden
	}
	return u.Redacted()
}

// advice returns what to do about a failed connection.
func advice(err error, opt rueidis.ClientOption) string {
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isTLS := errors.AsType[*tls.CertificateVerificationError](err)
	reply, isReply := rueidis.IsRedisErr(err)
	switch {
	case isReply && reply.IsNil(), isReply && strings.Contains(reply.Error(), "No such master"):
		return "The sentinels do not watch a master named " + opt.Sentinel.MasterSet + ": check master_set."
	case isReply && strings.HasPrefix(reply.Error(), "LOADING"):
		return "The server is loading its data: try again in a while."
	case isReply && (strings.HasPrefix(reply.Error(), "NOAUTH") || strings.HasPrefix(reply.Error(), "WRONGPASS") || strings.Contains(reply.Error(), "AUTH")):
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
