package etcd

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// callTimeout is how long a call to etcd may take: longer than an election.
	callTimeout = 3 * time.Second
	// retryPause is the pause before a call is repeated because etcd has no leader.
	retryPause = 50 * time.Millisecond
	// pingInterval is the interval of PINGs on connections with calls in flight.
	pingInterval = 10 * time.Second
)

// member is one member of etcd. A client with several endpoints would not notice that one
// of them is frozen.
type member struct {
	config clientv3.Config
	lock   chan struct{} // holds a value while client is used or made
	client *clientv3.Client
}

// newMember returns a member, without connecting. Everything ends with ctx.
func newMember(ctx context.Context, a address, endpoint string) *member {
	scheme := "http://"
	if a.tls != nil {
		scheme = "https://"
	}
	return &member{
		lock: make(chan struct{}, 1),
		config: clientv3.Config{
			Endpoints: []string{scheme + endpoint}, TLS: a.tls, Username: a.user, Password: a.password,
			Context: ctx, DialTimeout: callTimeout, DialKeepAliveTime: pingInterval, DialKeepAliveTimeout: callTimeout,
			MaxUnaryRetries: 2, // the second one is for a token that has expired
			Logger:          zap.NewNop(),
			DialOptions: []grpc.DialOption{
				// A member that comes back must not be avoided for minutes.
				grpc.WithConnectParams(grpc.ConnectParams{
					Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
					MinConnectTimeout: callTimeout,
				}),
				grpc.WithChainUnaryInterceptor(failFast),
			},
		},
	}
}

// failFast makes a call fail if the member cannot be reached, instead of waiting until it
// can be: another member is asked then.
func failFast(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(false))...)
}

// connected returns the client. With a user, the first call logs in.
func (m *member) connected(ctx context.Context) (*clientv3.Client, error) {
	select {
	case m.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-m.lock }()
	if m.config.Context.Err() != nil {
		return nil, directory.ErrClosed
	}
	if m.client == nil {
		client, err := clientv3.New(m.config)
		if err != nil {
			return nil, err
		}
		m.client = client
	}
	return m.client, nil
}

// close closes the connection. The context of newMember has ended.
func (m *member) close() {
	m.lock <- struct{}{}
	if m.client != nil {
		_ = m.client.Close()
	}
	<-m.lock
}

// ask asks one member after the other, see hedge, beginning with the one that
// answered last. It repeats the call while etcd has no leader.
func ask[T any](ctx context.Context, s *store, call func(ctx context.Context, c *clientv3.Client) (T, error)) (T, error) {
	return askFrom(ctx, s, int(s.last.Load()), call)
}

func askFrom[T any](ctx context.Context, s *store, from int, call func(ctx context.Context, c *clientv3.Client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, directory.ErrSilent)
	defer cancel()
	for {
		value, at, err := hedge(ctx, s.members, from, func(ctx context.Context, m *member) (value T, err error) {
			c, err := m.connected(ctx)
			if err == nil {
				value, err = call(ctx, c)
			}
			return value, explain(err)
		})
		if err == nil {
			s.last.Store(int32(at))
			return value, nil
		}
		if trouble, ok := errors.AsType[rpctypes.EtcdError](err); !ok || trouble.Code() != codes.Unavailable || !retry.Sleep(ctx, retryPause) {
			return value, err
		}
	}
}

// hedgeDelay is how long hedge waits for one member before it asks the next one as well.
const hedgeDelay = 100 * time.Millisecond

// hedge asks members in turn, beginning with the index from, and returns the first answer and the
// index of its member. It asks the next one when one fails, or does not answer within 100 ms: a
// slow member's answer still counts, and a frozen one must not use up the caller's time. So a call
// may be executed by several members.
func hedge[T any](ctx context.Context, members []*member, from int, call func(ctx context.Context, m *member) (T, error)) (value T, at int, err error) {
	type answer struct {
		value T
		at    int
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(members))
	asked := 0
	next := func() {
		at := (from + asked) % len(members)
		asked++
		go func() {
			value, err := call(ctx, members[at])
			answers <- answer{value, at, err}
		}()
	}
	next()
	silence := time.NewTimer(hedgeDelay)
	defer silence.Stop()
	var failures []error
	for {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.value, a.at, nil
			}
			failures = append(failures, a.err)
		case <-silence.C:
		case <-ctx.Done():
		}
		switch {
		case ctx.Err() != nil:
			return value, 0, context.Cause(ctx)
		case len(failures) == len(members):
			return value, 0, errors.Join(failures...)
		case asked < len(members):
			next()
			silence.Reset(hedgeDelay)
		}
	}
}

// Errors that etcd returns.
var (
	errLogin = &millrace.Error{
		Code:    "no_permission",
		Message: "etcd does not accept the user and the password",
		Hint:    "The URL names a user of etcd: etcd://USER:PASSWORD@HOST:PORT. Users of the fleet's own members are member_user and member_password.",
	}
	errDenied = &millrace.Error{
		Code:    "no_permission",
		Message: "the user of etcd may not use the fleet's keys",
		Hint:    "Grant it the prefix: etcdctl role grant-permission ROLE --prefix=true readwrite millrace/",
	}
	errTLS = &millrace.Error{
		Code:    "unavailable",
		Message: "no secure connection to etcd could be made",
		Hint:    "Use etcds:// if etcd serves TLS, and etcd:// if not; ca=FILE names the authority that signed its certificate, cert=FILE and key=FILE the client's own.",
	}
)

// grpcWords finds what gRPC adds to an error of the network.
var grpcWords = regexp.MustCompile(`connection error: desc = "(?:transport: )?|Error while dialing: |"$`)

// explain adds a hint to an error of etcd.
func explain(err error) error {
	if err == nil || millrace.Code(err) != "" {
		return err
	}
	text := grpcWords.ReplaceAllString(status.Convert(err).Message(), "")
	of := func(sentinel *millrace.Error) error { return sentinel.Wrap(errors.New(text)) }
	switch {
	case is(err, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthNotEnabled):
		return of(errLogin)
	case is(err, rpctypes.ErrPermissionDenied):
		return of(errDenied)
	case is(err, rpctypes.ErrNoSpace):
		full := millrace.ErrFull.Errorf("etcd has reached its quota and refuses writes").Wrap(err)
		return full.WithHint("Compact and defragment etcd, then disarm its alarm; set --auto-compaction-retention.")
	case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") || strings.Contains(text, "authentication handshake failed"):
		return of(errTLS)
	case status.Code(err) == codes.Unavailable:
		if known, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err)); ok {
			return known
		}
		return errors.New(text)
	}
	return err
}

// is reports whether err is one of etcd's errors.
func is(err error, targets ...error) bool {
	known := rpctypes.Error(err)
	for _, target := range targets {
		if errors.Is(known, target) {
			return true
		}
	}
	return false
}
