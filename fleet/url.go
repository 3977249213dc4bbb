package fleet

import (
	"net/url"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

// ParseURL parses the URL of a fleet: how to connect to its directory, and with the
// same user, password and TLS to its members.
//
//	fleet://USER:PASSWORD@HOST:PORT
//	fleets://...                               over TLS
//
// A directory in Redis is one server. The rest is that of rueidis.ParseURL. The error is
// millrace.ErrBadArgument and contains no password.
func ParseURL(text string) (rueidis.ClientOption, error) {
	refused := millrace.ErrBadArgument.Errorf("this is not the URL of a fleet")
	refused.Hint = "Give fleet://HOST:PORT, where the directory is."
	if strings.HasPrefix(text, "etcd://") || strings.HasPrefix(text, "etcds://") {
		refused.Hint = "Package fleet/etcd opens a fleet whose directory is in etcd."
	}
	rest, tls := strings.CutPrefix(text, "fleets://")
	if !tls {
		var ok bool
		if rest, ok = strings.CutPrefix(text, "fleet://"); !ok {
			return rueidis.ClientOption{}, refused
		}
	}
	scheme := "redis://"
	if tls {
		scheme = "rediss://"
	}
	if u, err := url.Parse(scheme + rest); err != nil || u.Host == "" {
		return rueidis.ClientOption{}, refused
	}
	option, err := rueidis.ParseURL(scheme + rest)
	if err != nil {
		return rueidis.ClientOption{}, refused
	}
	if len(option.InitAddress) != 1 || option.Sentinel.MasterSet != "" {
		return rueidis.ClientOption{}, millrace.ErrBadArgument.Errorf("a directory in Redis is one server: its URL has no addr and no master_set").
			WithHint("Give fleet://HOST:PORT, or etcd://HOST:PORT,HOST2:PORT2/FLEET for a directory of several servers.")
	}
	return option, nil
}
