package fleet

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAConnectionBelongsToOneRun: a server in another run than the map has is refused before a
// command is sent, however the client logs in.
func TestAConnectionBelongsToOneRun(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := redistest.Start(t, redistest.Options{TCP: true})
	admin, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, user := range [][]string{{"worker", "on", ">key", "~*", "+@all"}, {"blind", "on", ">key", "~*", "+@all", "-info"}, {"default", ">secret"}} {
		if err := admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER").Args(user...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	credentials := func(user, password string) rueidis.ClientOption {
		return rueidis.ClientOption{Username: user, Password: password}
	}
	asked := rueidis.ClientOption{AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Username: "worker", Password: "key"}, nil
	}}
	for name, option := range map[string]rueidis.ClientOption{
		"the password of all": credentials("", "secret"), "a user": credentials("worker", "key"), "credentials of a function": asked,
	} {
		option = members.Single(option, s.Addr(), time.Second, time.Second)
		m := &member{option: option}
		option.DialCtxFn = m.dial
		c, err := rueidis.NewClient(option)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
		c.Close()
		run := members.ParseInfo(text).Run
		if err != nil || run == "" {
			t.Fatalf("%s: the server is in run %q, %v", name, run, err)
		}
		for wanted, refused := range map[string]bool{run: false, "": false, "0123456789012345678901234567890123456789": true} {
			m.run.Store(&wanted)
			c, err := rueidis.NewClient(option)
			if err == nil {
				err = c.Do(ctx, c.B().Ping().Build()).Error()
				c.Close()
			}
			if errors.Is(err, errRestarted) != refused || !refused && err != nil {
				t.Errorf("%s: a connection to run %s, wanted %q = %v, want it refused: %v", name, run, wanted, err, refused)
			}
		}
	}
	other := "0123456789012345678901234567890123456789"
	m := &member{option: members.Single(credentials("blind", "key"), s.Addr(), time.Second, time.Second)}
	m.run.Store(&other)
	conn, err := m.dial(ctx, s.Addr(), &net.Dialer{}, (*tls.Config)(nil))
	if err != nil {
		t.Errorf("a connection of a user that may not ask for the run = %v, want it as before", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
