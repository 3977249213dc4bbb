package luacheck

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// moduleRoot is the module's root folder, seen from here.
const moduleRoot = "../../.."

// rueidisBuilders reads rueidis' source once for all tests.
var rueidisBuilders = sync.OnceValues(func() (builders, error) { return readBuilders(moduleRoot) })

func TestGo(t *testing.T) {
	t.Parallel()
	b, err := rueidisBuilders()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		body string
		want []string
	}{
		{"commands of 6.2", `
c.Do(ctx, c.B().Zadd().Key(k).Gt().Ch().ScoreMember().ScoreMember(1, m).Build())
c.Do(ctx, c.B().XgroupCreate().Key(k).Group("g").Id("$").Mkstream().Build().Pin())
c.Do(ctx, c.B().ScriptLoad().Script("ENTRIESREAD").Build())
c.Do(ctx, c.B().SentinelReplicas().Master("m").Build())
c.Do(ctx, c.B().Set().Key(k).Value("LT").Nx().ExSeconds(1).Build())`, nil},
		{"a command of 7.0", `
c.Do(ctx,
	c.B().Sintercard().Numkeys(1).Key(k).Build())`, []string{"3: SINTERCARD is not a command of Redis 6.2"}},
		{"a subcommand of 7.0", `
c.B().ClientNoEvict().On().Build()`, []string{"2: CLIENT NO-EVICT is not a command of Redis 6.2"}},
		{"a method that the builder has not", `
c.B().Sett().Key(k).Build()`, []string{"2: rueidis' builder has no method Sett, as far as its source tells"}},
		{"options of 7.0", `
c.DoMulti(ctx,
	c.B().Expire().Key(k).Seconds(1).
		Gt().Build(),
	c.B().XgroupCreate().Key(k).Group("g").Id("0").Entriesread(1).Build())`, []string{
			"4: GT is not an option of EXPIRE in Redis 6.2",
			"5: ENTRIESREAD is not an option of XGROUP CREATE in Redis 6.2",
		}},
		{"a command over variables", `
b := c.B()
cmd := b.Expire().Key(k).Seconds(1)
if now {
	return cmd.Nx().Build()
}
next := cmd.Build()
cmd = other
cmd.Nx()`, []string{"5: NX is not an option of EXPIRE in Redis 6.2"}},
		{"a command in a closure in a command", `
c.B().Get().Key(f(func() string { return c.B().Lcs().Key1(k).Key2(k).Build() })).Build()`, []string{
			"2: LCS is not a command of Redis 6.2",
		}},
		{"sections", `
c.B().Info().Section("server").Build()
c.B().Info().Section("server", "memory").Build()
c.B().Info().Section([]string{"server", "memory"}...).Build()
c.B().Info().Section("server").Section("memory").Build()
c.B().ConfigGet().Parameter("save", "maxmemory").Build()
c.B().ConfigGet().Parameter("save").Build()
c.B().ConfigSet().ParameterValue().ParameterValue("a", "1").Build()
c.B().ConfigSet().ParameterValue().ParameterValue("a", "1").ParameterValue("b", "2").Build()`, []string{
			"3: INFO takes at most one section in Redis 6.2",
			"4: INFO takes at most one section in Redis 6.2",
			"5: INFO takes at most one section in Redis 6.2",
			"6: CONFIG GET takes one parameter in Redis 6.2",
			"9: CONFIG SET takes one parameter and value in Redis 6.2",
		}},
		{"arbitrary", `
c.B().Arbitrary("ZADD").Keys(k).Args("GT", "1", m).Build()
c.B().Arbitrary("EXPIRE").Keys("NX").Args("1", "NX").Build()
c.B().Arbitrary("FUNCTION", "LOAD").Args(text).Build()
c.B().Arbitrary("XGROUP", "CREATE", k, "g", "$", "ENTRIESREAD", "1").Build()
c.B().Arbitrary("ZRANK").Keys(k).Args([]string{m, "WITHSCORE"}...).Build()
c.B().Arbitrary("INFO", "server", "memory").Build()
c.B().Arbitrary(name).Args("WITHSCORE").Build()
c.B().Arbitrary(words...).Build()`, []string{
			"3: NX is not an option of EXPIRE in Redis 6.2",
			"4: FUNCTION is not a command of Redis 6.2",
			"5: ENTRIESREAD is not an option of XGROUP CREATE in Redis 6.2",
			"6: WITHSCORE is not an option of ZRANK in Redis 6.2",
			"7: INFO takes at most one section in Redis 6.2",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write(t, root, "demo/demo.go", "package demo; func do() {"+tc.body+"\n}\n")
			if diff := cmp.Diff(tc.want, lines(checkGo(root, b))); diff != "" {
				t.Errorf("checkGo (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeSkips(t *testing.T) {
	t.Parallel()
	b, err := rueidisBuilders()
	if err != nil {
		t.Fatal(err)
	}
	const (
		badGo  = "package demo\n\nfunc do() { c.B().Lcs().Key1(k).Key2(k).Build() }\n"
		badLua = goodHeader + "x = 1\n"
	)
	root := t.TempDir()
	write(t, root, "demo/demo.go", badGo)
	write(t, root, "demo/do.lua", badLua)
	for _, folder := range []string{"examples/demo", "bench/demo", "demo/testdata", ".git", "_old", "nested"} {
		write(t, root, folder+"/demo.go", badGo)
		write(t, root, folder+"/do.lua", badLua)
	}
	write(t, root, "demo/demo_test.go", badGo)
	write(t, root, "nested/go.mod", "module nested\n")

	want := []Problem{{"demo/demo.go", 3, "LCS is not a command of Redis 6.2"}}
	if diff := cmp.Diff(want, checkGo(root, b)); diff != "" {
		t.Errorf("checkGo (-want +got):\n%s", diff)
	}
	want = []Problem{{"demo/do.lua", 10, "x is assigned, but is not a local"}}
	if diff := cmp.Diff(want, CheckTree(root)); diff != "" {
		t.Errorf("CheckTree (-want +got):\n%s", diff)
	}
}

func TestTreeFragments(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "demo/open.lua", openFragment)
	write(t, root, "internal/size/size.lua", sizeFragment)
	write(t, root, "demo/do.lua", goodHeader+"return size(a) + redis.call('ZCARD', K .. ':' .. ARGV[1]) + redis.call('ZCARD', 'a')\n")
	write(t, root, "other/demo/do.lua", goodHeader+"return size(a)\n")

	want := []Problem{
		{"demo/do.lua", 10, `key "a" of ZCARD is not built from KEYS[1]`},
		{"other/demo/do.lua", 10, "a is neither a local nor a global that scripts may use"},
	}
	if diff := cmp.Diff(want, CheckTree(root)); diff != "" {
		t.Errorf("CheckTree (-want +got):\n%s", diff)
	}
}

func TestTreesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if got := CheckGo(root); len(got) != 1 || !strings.Contains(got[0].Message, "rueidis") {
		t.Errorf("CheckGo without a module = %v, want one problem about rueidis", got)
	}
	missing := filepath.Join(root, "missing")
	if got := CheckTree(missing); len(got) != 1 {
		t.Errorf("CheckTree of a missing folder = %v, want one problem", got)
	}
	write(t, root, "demo.go", "package")
	if got := checkGo(root, builders{}); len(got) != 1 {
		t.Errorf("checkGo of a file with a syntax error = %v, want one problem", got)
	}
}

// TestModule holds Millrace itself to the rules.
func TestModule(t *testing.T) {
	t.Parallel()
	for _, p := range CheckTree(moduleRoot) {
		t.Error(p)
	}
	for _, p := range CheckGo(moduleRoot) {
		t.Error(p)
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
