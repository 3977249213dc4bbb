package repo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	module    = "github.com/millrace/millrace"
	rueidis   = "github.com/redis/rueidis"
	miniredis = "github.com/alicebob/miniredis/v2"
	etcd      = "go.etcd.io"
	grpc      = "google.golang.org/grpc"
	huma      = "github.com/danielgtaylor/huma"
	pq        = "github.com/lib/pq"
	goCron    = "github.com/netresearch/go-cron"

	charm         = "charm.land"
	charmbracelet = "github.com/charmbracelet"
)

// depRule says what some packages may not import. The rules together are the
// house that the documentation draws: imports point downwards only.
type depRule struct {
	of     set            // the packages that the rule is for
	deep   bool           // what they import counts, and what that imports, up to rueidis
	only   set            // all that they may import; nil for no limit
	never  set            // what they may not import; nil for nothing
	except map[string]set // by the first part of a package's path: what it may import all the same
	why    string
}

// set is a set of packages.
type set func(importPath string) bool

var (
	structures  = but(rooms("ick", "fairqueue", "expiry", "pinned", "tracker", "scatter", "fetch", "lease"), rooms("fairqueue/queuestats"))
	testHelpers = rooms("millracetest", "internal/test/redistest", "internal/test/etcdtest", "internal/test/pgtest", "internal/test/scripttest", "internal/test/shardstest", "internal/test/directorytest")
	upstairs    = rooms("cmd", "server", "observe", "fleet", "internal/fleet")
)

var depRules = []depRule{
	{
		of: is(module), deep: true, only: anyOf(standard),
		why: "every package imports the root, so it imports nothing but the standard library",
	},
	{
		of: rooms("ring", "shuffleshard"), deep: true, only: anyOf(standard),
		why: "ring and shuffleshard are arithmetic that others port: they import nothing but the standard library",
	},
	{
		of: rooms("steal"), deep: true, never: anyOf(under(rueidis), under(miniredis)),
		why: "steal is useful without Redis, so it imports no Redis",
	},
	{
		of: structures, deep: true, only: anyOf(standard, under(rueidis), under(module)),
		why: "who imports a structure gets rueidis and no other dependency: structures call hooks, and what adapts them lives elsewhere",
	},
	{
		of: structures, never: structures,
		except: map[string]set{
			"fetch": rooms("pinned", "lease"),
		},
		why: "structures do not import each other, save fetch on pinned and lease: what two need goes into an internal package",
	},
	{
		of: rooms("dial"), deep: true, never: anyOf(structures, upstairs, under(miniredis)),
		why: "dial is what a program calls before it has a structure: it opens clients, and builds nothing else",
	},
	{
		of: anyOf(structures, rooms("steal")), never: anyOf(upstairs, rooms("dial", "internal/bench", "internal/diagnosis", "internal/ops", "internal/survey")),
		why: "imports point downwards: structures know nothing of the fleet, the server, the command, the adapters of hooks and the URL of their client",
	},
	{
		of: but(rooms("internal"), rooms("internal/bench", "internal/ops", "internal/survey")), never: structures,
		why: "internal packages are what structures lean on, so they import no structure; bench, ops and survey are what several programs share",
	},
	{
		of: but(under(module), rooms("cmd", "internal/connect", "internal/test/redistest", "millracetest")), never: under(miniredis),
		why: "miniredis stands in for a server that is not there; only the command, its connections and helpers of tests choose it",
	},
	{
		of: but(under(module), testHelpers), never: under("testing"),
		why: "package testing adds its flags to programs; only the helpers of tests import it",
	},
	{
		of: but(under(module), testHelpers), never: anyOf(testHelpers, rooms("internal/test/luacheck")),
		why: "millracetest, redistest, etcdtest, luacheck and the like are for tests only",
	},
	{
		of: but(under(module), rooms("cmd", "fleet/etcd", "internal/fleet/open", "internal/test/etcdtest")), never: anyOf(under(etcd), under(grpc), rooms("fleet/etcd", "internal/fleet/open")),
		why: "who has no fleet on etcd builds nothing of etcd; only the command, with what opens fleets for it, and fleet/etcd import it",
	},
	{
		of: but(under(module), rooms("fleet/agent")), never: rooms("internal/fleet/restored"),
		why: "one package puts an agent together: who needs one runs fleet/agent, so that each agent does all that agents promise",
	},
	{
		of: is(module + "/schedule"), deep: true, only: anyOf(standard, is(module)),
		why: "schedule is arithmetic that every queue imports: the parser of expressions is in schedule/cron",
	},
	{
		of: but(under(module), rooms("cmd/millrace/top", "cmd/millrace/watch")), never: anyOf(under(charm), under(charmbracelet)),
		why: "the library for terminals is for the live views of the command alone",
	},
	{
		of: but(under(module), rooms("schedule/cron")), never: under(goCron),
		why: "the parser of cron expressions is a fork without a version 1: one package imports it, whose tests hold what we rely on, so that it can be replaced",
	},
	{
		of: but(under(module), rooms("server/internal/api", "internal/jsontype")), never: under(huma),
		why: "huma's last release is of February 2026: only the API and its documents import it, whose tests hold what we rely on, so that it can be replaced",
	},
	{
		of: but(under(module), rooms("cmd/millrace")), never: under(pq),
		why: "a program brings its own driver to package tracker; the command has one for millrace serve --trackers",
	},
	{
		of: rooms("fairqueue/queuestats"), deep: true, only: anyOf(standard),
		why: "a queue's figures are plain data: who shows, judges or exports them builds no queue",
	},
}

func is(path string) set { return func(p string) bool { return p == path } }

// under is a package and all below it.
func under(path string) set {
	return func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }
}

// rooms are packages of the module and all below them.
func rooms(names ...string) set {
	var all []set
	for _, name := range names {
		all = append(all, under(module+"/"+name))
	}
	return anyOf(all...)
}

func anyOf(sets ...set) set {
	return func(p string) bool {
		return slices.ContainsFunc(sets, func(s set) bool { return s(p) })
	}
}

func but(all, without set) set {
	return func(p string) bool { return all(p) && !without(p) }
}

// standard is the standard library: the paths whose first part has no dot.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// breaches returns the imports in a graph that break a rule, one message each.
// The graph lists the imports of each package, without its tests.
func (r depRule) breaches(graph map[string][]string) []string {
	var all []string
	for _, pkg := range slices.Sorted(maps.Keys(graph)) {
		if !r.of(pkg) {
			continue
		}
		seen := map[string]bool{pkg: true}
		var visit func(via []string)
		visit = func(via []string) {
			for _, dep := range slices.Sorted(slices.Values(graph[via[len(via)-1]])) {
				if seen[dep] {
					continue
				}
				seen[dep] = true
				path := append(slices.Clip(via), dep)
				if r.refuses(pkg, dep) {
					all = append(all, fmt.Sprintf("%s: %s", strings.Join(path, " imports "), r.why))
				} else if r.deep && !standard(dep) && !under(rueidis)(dep) {
					visit(path)
				}
			}
		}
		visit([]string{pkg})
	}
	return all
}

func (r depRule) refuses(pkg, dep string) bool {
	if structures(pkg) && room(pkg) == room(dep) {
		return false // a structure may have packages below it
	}
	if except := r.except[room(pkg)]; except != nil && except(dep) {
		return false
	}
	return r.only != nil && !r.only(dep) || r.never != nil && r.never(dep)
}

// room returns the first part of a package's path below the module, or "".
func room(importPath string) string {
	_, rest, _ := strings.Cut(importPath, module+"/")
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// TestDependencies holds the imports of all packages to depRules.
func TestDependencies(t *testing.T) {
	t.Parallel()
	graph := importGraph(t)
	if len(graph[module]) == 0 {
		t.Fatalf("go list does not tell what %s imports", module)
	}
	for _, rule := range depRules {
		for _, breach := range rule.breaches(graph) {
			t.Error(breach)
		}
	}
}

// importGraph asks the go command what every package imports, standard library
// aside.
func importGraph(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Standard", "./...")
	out, err := list.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v: %v\n%s", list, err, e.Stderr)
		}
		t.Fatalf("%v: %v", list, err)
	}
	graph := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
			Standard   bool
		}
		if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		if !pkg.Standard {
			graph[pkg.ImportPath] = pkg.Imports
		}
	}
}

// TestDependencyRules sees every rule fire, and be silent, on small graphs. A
// name that begins with a slash is a package of the module.
func TestDependencyRules(t *testing.T) {
	t.Parallel()
	type edges map[string]string // package -> what it imports, by spaces
	tests := []struct {
		name  string
		rule  int
		graph edges
		want  []string // chains of imports
	}{
		{"root on the standard library", 0, edges{"/": "fmt net/http"}, nil},
		{"root on rueidis", 0, edges{"/": "fmt " + rueidis}, []string{"/ " + rueidis}},
		{"root on its own internals", 0, edges{"/": "/internal/x"}, []string{"/ /internal/x"}},

		{"ring alone", 1, edges{"/ring": "math/bits", "/shuffleshard": "slices"}, nil},
		{"ring on the root", 1, edges{"/ring": "/"}, []string{"/ring /"}},
		{"shuffleshard on another's code", 1, edges{"/shuffleshard": "example.com/hash"}, []string{"/shuffleshard example.com/hash"}},

		{"steal without Redis", 2, edges{"/steal": "/ time", "/": "fmt"}, nil},
		{"steal on Redis in the end", 2, edges{"/steal": "/internal/x", "/internal/x": rueidis + "/internal/cmds"},
			[]string{"/steal /internal/x " + rueidis + "/internal/cmds"}},

		{"a structure on what it may", 3, edges{
			"/ick":                   "/ /internal/redis/script fmt " + rueidis,
			"/internal/redis/script": rueidis,
			rueidis:                  "golang.org/x/sys/cpu",
		}, nil},
		{"a structure on a metrics library", 3, edges{"/lease": "example.com/prometheus"}, []string{"/lease example.com/prometheus"}},
		{"a structure on one in the end", 3, edges{"/tracker/sql": "/internal/x", "/internal/x": "example.com/y"},
			[]string{"/tracker/sql /internal/x example.com/y"}},

		{"structures that lean on others", 4, edges{"/fetch": "/lease /pinned /steal", "/ick": "/steal", "/tracker/sql": "/tracker"}, nil},
		{"structures that lean on the wrong ones", 4, edges{"/ick": "/lease", "/lease": "/scatter"},
			[]string{"/ick /lease", "/lease /scatter"}},

		{"dial alone", 5, edges{"/dial": "/ net/url " + rueidis}, nil},
		{"dial on the fleet and an imitation", 5, edges{"/dial": "/fleet /internal/connect", "/internal/connect": miniredis, "/fleet": "fmt"},
			[]string{"/dial /fleet", "/dial /internal/connect " + miniredis}},

		{"the command on a structure", 6, edges{"/cmd/millrace": "/ick /fleet", "/ick": "/steal"}, nil},
		{"a structure on the fleet", 6, edges{"/scatter": "/fleet", "/steal": "/observe/metrics"}, []string{"/scatter /fleet", "/steal /observe/metrics"}},

		{"an internal package on the root", 7, edges{"/internal/redis/script": "/ /internal/redis/retry"}, nil},
		{"what the command and the server share on a structure", 7, edges{"/internal/survey": "/ick /observe/metrics", "/internal/ops": "/lease"}, nil},
		{"an internal package on a structure", 7, edges{"/internal/redis/script": "/ick"}, []string{"/internal/redis/script /ick"}},

		{"miniredis where it may be", 8, edges{"/cmd/millrace": miniredis, "/internal/connect": miniredis, "/internal/test/redistest": miniredis, "/millracetest": miniredis}, nil},
		{"miniredis where it may not be", 8, edges{"/server": miniredis + "/server", "/": miniredis},
			[]string{"/ " + miniredis, "/server " + miniredis + "/server"}},

		{"testing where it may be", 9, edges{"/internal/test/redistest": "testing"}, nil},
		{"testing where it may not be", 9, edges{"/internal/redis/redisproc": "testing", "/fleet": "testing/synctest"},
			[]string{"/fleet testing/synctest", "/internal/redis/redisproc testing"}},

		{"what is for tests in no program", 10, edges{"/internal/test/redistest": "/internal/redis/redisproc", "/cmd/millrace": "/internal/redis/script"}, nil},
		{"what is for tests in a program", 10, edges{"/cmd/millrace": "/internal/test/redistest", "/internal/redis/script": "/internal/test/luacheck"},
			[]string{"/cmd/millrace /internal/test/redistest", "/internal/redis/script /internal/test/luacheck"}},

		{"etcd where it may be", 11, edges{"/fleet/etcd": etcd + "/client " + grpc, "/cmd/millrace": "/internal/fleet/open", "/internal/fleet/open": "/fleet/etcd"}, nil},
		{"etcd where it may not be", 11, edges{"/fleet": "/fleet/etcd", "/internal/fleet/failover": etcd + "/client", "/server": "/internal/fleet/open"},
			[]string{"/fleet /fleet/etcd", "/internal/fleet/failover " + etcd + "/client", "/server /internal/fleet/open"}},

		{"an agent", 12, edges{"/fleet/agent": "/internal/fleet/restored /internal/fleet/failover", "/cmd/millrace": "/fleet/agent /internal/fleet/failover"}, nil},
		{"an agent of another package's own", 12, edges{"/cmd/millrace": "/internal/fleet/restored"}, []string{"/cmd/millrace /internal/fleet/restored"}},

		{"schedule on the root", 13, edges{"/schedule": "/ time", "/schedule/cron": "/schedule example.com/cron"}, nil},
		{"schedule on a parser", 13, edges{"/schedule": "/schedule/cron", "/schedule/cron": "example.com/cron"},
			[]string{"/schedule /schedule/cron"}},

		{"terminals where they may be", 14, edges{"/cmd/millrace/top": charm + "/bubbletea/v2 " + charmbracelet + "/x/term", "/cmd/millrace": "/cmd/millrace/top"}, nil},
		{"terminals where they may not be", 14, edges{"/internal/screen": charmbracelet + "/x/ansi", "/cmd/millrace": charm + "/bubbletea/v2"},
			[]string{"/cmd/millrace " + charm + "/bubbletea/v2", "/internal/screen " + charmbracelet + "/x/ansi"}},

		{"go-cron where it may be", 15, edges{"/schedule/cron": goCron, "/cmd/millrace": "/schedule/cron"}, nil},
		{"go-cron where it may not be", 15, edges{"/fairqueue": goCron}, []string{"/fairqueue " + goCron}},

		{"huma where it may be", 16, edges{"/server/internal/api": huma + "/v2 " + huma + "/v2/adapters/humago", "/internal/jsontype": huma + "/v2"}, nil},
		{"huma where it may not be", 16, edges{"/cmd/millrace": huma + "/v2"}, []string{"/cmd/millrace " + huma + "/v2"}},

		{"a driver in the command", 17, edges{"/cmd/millrace": pq + " /tracker"}, nil},
		{"a driver in the service", 17, edges{"/server": pq, "/tracker": pq}, []string{"/server " + pq, "/tracker " + pq}},

		{"figures as plain data", 18, edges{"/fairqueue/queuestats": "time", "/fairqueue": "/fairqueue/queuestats"}, nil},
		{"figures on a queue", 18, edges{"/fairqueue/queuestats": "/fairqueue"}, []string{"/fairqueue/queuestats /fairqueue"}},
	}
	fired := map[int]bool{}
	for _, tc := range tests {
		fired[tc.rule] = fired[tc.rule] || tc.want != nil
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			graph := map[string][]string{}
			for pkg, imports := range tc.graph {
				graph[inModule(pkg)] = inModules(imports)
			}
			rule := depRules[tc.rule]
			var want []string
			for _, chain := range tc.want {
				want = append(want, strings.Join(inModules(chain), " imports ")+": "+rule.why)
			}
			if diff := cmp.Diff(want, rule.breaches(graph)); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
	if got, want := len(fired), len(depRules); got != want {
		t.Errorf("%d rules are tried, of %d", got, want)
	}
	for i, ok := range fired {
		if !ok {
			t.Errorf("no graph makes this rule fire: %s", depRules[i].why)
		}
	}
}

func inModules(names string) []string {
	var all []string
	for name := range strings.FieldsSeq(names) {
		all = append(all, inModule(name))
	}
	return all
}

func inModule(name string) string {
	if rest, ok := strings.CutPrefix(name, "/"); ok {
		return strings.TrimSuffix(module+"/"+rest, "/")
	}
	return name
}
