package conformance

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/fleet/directory"
	one "github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/scatter"
)

// TestClientsKeepTheirNames: no client of the library or the command sends the server the
// name of the library, which the users of docs/SECURITY.md may not.
func TestClientsKeepTheirNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	for name, use := range map[string]func(url, addr string){
		"the command's": func(url, _ string) {
			c, err := dial.Redis(t.Context(), url)
			must(t, "Open", err)
			defer c.Close()
			must(t, "PING", c.Do(t.Context(), c.B().Ping().Build()).Error())
		},
		"a directory's": func(_, addr string) {
			d, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{addr}})
			must(t, "Dial", err)
			defer d.Close()
			_, _ = d.Load(t.Context()) // there is no fleet
		},
		"a member's": func(_, addr string) {
			c, err := rueidis.NewClient(one.Single(rueidis.ClientOption{}, addr, time.Second, time.Second))
			must(t, "NewClient", err)
			defer c.Close()
			must(t, "PING", c.Do(t.Context(), c.B().Ping().Build()).Error())
		},
		"a counter's": func(_, addr string) {
			sc, err := scatter.New([]scatter.Server{{Option: rueidis.ClientOption{InitAddress: []string{addr}}}}, scatter.Config{})
			must(t, "New", err)
			defer sc.Close()
			session := sc.Session("x")
			session.Add("n", 1)
			must(t, "Flush", session.Flush(t.Context()))
		},
	} {
		var mu sync.Mutex
		var sent []string
		proxy := redistest.NewTCPProxy(t, server.Addr())
		proxy.DropReplyWhen(func(cmd []string) bool {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, strings.ToUpper(strings.Join(cmd[:min(2, len(cmd))], " ")))
			return false
		})
		use(proxy.URL(), proxy.Addr())
		mu.Lock()
		if len(sent) == 0 || slices.Contains(sent, "CLIENT SETINFO") {
			t.Errorf("%s client sent %q", name, sent)
		}
		mu.Unlock()
	}
}
