package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// FromOptions returns the options of package rueidis, for dial.With, that lead to the same server
// as those of go-redis. It refuses options that rueidis does not have and those that would change
// which server is asked or how; docs/GOREDIS.md has each field.
func FromOptions(o *redis.Options) (rueidis.ClientOption, error) {
	if o.Limiter != nil {
		return rueidis.ClientOption{}, dropped("Limiter")
	}
	return common{
		network: o.Network, addrs: []string{cmp.Or(o.Addr, "localhost:6379")}, db: o.DB,
		name: o.ClientName, user: o.Username, password: o.Password, tls: o.TLSConfig,
		timeout: net.Dialer{Timeout: o.DialTimeout}, dial: o.Dialer,
		credentials: o.CredentialsProvider, credentialsContext: o.CredentialsProviderContext,
		hasOnConnect: o.OnConnect != nil, hasStreaming: o.StreamingCredentialsProvider != nil,
	}.options()
}

// FromCluster is [FromOptions] for a Redis Cluster.
func FromCluster(o *redis.ClusterOptions) (rueidis.ClientOption, error) {
	switch {
	case o.NewClient != nil:
		return rueidis.ClientOption{}, dropped("NewClient")
	case o.ClusterSlots != nil:
		return rueidis.ClientOption{}, dropped("ClusterSlots")
	}
	return common{
		addrs: o.Addrs,
		name:  o.ClientName, user: o.Username, password: o.Password, tls: o.TLSConfig,
		timeout: net.Dialer{Timeout: o.DialTimeout}, dial: o.Dialer,
		credentials: o.CredentialsProvider, credentialsContext: o.CredentialsProviderContext,
		hasOnConnect: o.OnConnect != nil, hasStreaming: o.StreamingCredentialsProvider != nil,
	}.options()
}

// FromFailover is [FromOptions] for a master that sentinels watch.
func FromFailover(o *redis.FailoverOptions) (rueidis.ClientOption, error) {
	if o.ReplicaOnly {
		return rueidis.ClientOption{}, errors.New("ReplicaOnly: structures write, and need the master")
	}
	opt, err := common{
		addrs: o.SentinelAddrs, db: o.DB,
		name: o.ClientName, user: o.Username, password: o.Password, tls: o.TLSConfig,
		timeout: net.Dialer{Timeout: o.DialTimeout}, dial: o.Dialer,
		credentials: o.CredentialsProvider, credentialsContext: o.CredentialsProviderContext,
		hasOnConnect: o.OnConnect != nil, hasStreaming: o.StreamingCredentialsProvider != nil,
	}.options()
	opt.Sentinel = rueidis.SentinelOption{
		MasterSet: o.MasterName, Username: o.SentinelUsername, Password: o.SentinelPassword,
		TLSConfig: o.TLSConfig, Dialer: opt.Dialer, ClientName: o.ClientName,
	}
	return opt, err
}

// FromUniversal is [FromOptions] for options of redis.NewUniversalClient, and chooses as that does.
func FromUniversal(o *redis.UniversalOptions) (rueidis.ClientOption, error) {
	switch {
	case o.MasterName != "" && (o.RouteByLatency || o.RouteRandomly || o.IsClusterMode):
		// go-redis treats master and replicas as a cluster, to read from replicas.
		failover := o.Failover()
		failover.RouteByLatency, failover.RouteRandomly = false, false
		return FromFailover(failover)
	case o.MasterName != "":
		return FromFailover(o.Failover())
	case len(o.Addrs) > 1 || o.IsClusterMode:
		return FromCluster(o.Cluster())
	default:
		return FromOptions(o.Simple())
	}
}

// common has the options that all option structs of go-redis share.
type common struct {
	network            string
	addrs              []string
	db                 int
	name               string
	user, password     string
	tls                *tls.Config
	timeout            net.Dialer
	dial               func(ctx context.Context, network, addr string) (net.Conn, error)
	credentials        func() (user, password string)
	credentialsContext func(context.Context) (user, password string, err error)
	hasOnConnect       bool
	hasStreaming       bool
}

func (c common) options() (rueidis.ClientOption, error) {
	switch {
	case c.hasOnConnect:
		return rueidis.ClientOption{}, dropped("OnConnect")
	case c.hasStreaming:
		return rueidis.ClientOption{}, dropped("StreamingCredentialsProvider")
	}
	opt := rueidis.ClientOption{
		InitAddress: c.addrs, SelectDB: c.db, ClientName: c.name, Username: c.user, Password: c.password,
		TLSConfig: c.tls, Dialer: c.timeout,
	}
	network := c.network
	if network == "" && len(c.addrs) == 1 && strings.HasPrefix(c.addrs[0], "/") {
		network = "unix" // as go-redis does
	}
	switch {
	case c.dial != nil: // TLS is its business, in both libraries
		opt.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.dial(ctx, cmp.Or(network, "tcp"), addr)
		}
	case network == "unix":
		opt.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", addr)
		}
	}
	switch {
	case c.credentialsContext != nil:
		opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password, err := c.credentialsContext(context.Background())
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		}
	case c.credentials != nil:
		opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password := c.credentials()
			return rueidis.AuthCredentials{Username: user, Password: password}, nil
		}
	}
	return opt, nil
}

func dropped(field string) error {
	return fmt.Errorf("%s has no counterpart in rueidis: leave it out of these options, and see docs/GOREDIS.md", field)
}
