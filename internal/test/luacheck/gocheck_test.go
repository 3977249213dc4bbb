package luacheck

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// moduleRoot is the module's root folder, seen from here.
const moduleRoot = "../../.."

func TestGo(t *testing.T) {
	t.Parallel()
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
c.B().Sett().Key(k).Build()`, []string{"2: rueidis' builder has no method Sett"}},
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
			if diff := cmp.Diff(tc.want, lines(CheckGo(root))); diff != "" {
				t.Errorf("CheckGo (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeSkips(t *testing.T) {
	t.Parallel()
	const badGo = "package demo\n\nfunc do() { c.B().Lcs().Key1(k).Key2(k).Build() }\n"
	root := t.TempDir()
	write(t, root, "demo/demo.go", badGo)
	for _, folder := range []string{"examples/demo", "bench/demo", "demo/testdata", ".git", "_old", "nested"} {
		write(t, root, folder+"/demo.go", badGo)
	}
	write(t, root, "demo/demo_test.go", badGo)
	write(t, root, "nested/go.mod", "module nested\n")

	want := []Problem{{"demo/demo.go", 3, "LCS is not a command of Redis 6.2"}}
	if diff := cmp.Diff(want, CheckGo(root)); diff != "" {
		t.Errorf("CheckGo (-want +got):\n%s", diff)
	}
}

func TestTreeThatCannotBeRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "demo.go", "package")
	if got := CheckGo(root); len(got) != 1 {
		t.Errorf("CheckGo of a file with a syntax error = %v, want one problem", got)
	}
}

// TestModule holds Millrace itself to the rules.
func TestModule(t *testing.T) {
	t.Parallel()
	for _, p := range CheckGo(moduleRoot) {
		t.Error(p)
	}
}

// unchecked returns the folders with scripts of a module whose tests do not hold each
// library of theirs to the rules. Such a folder is a package's, or just below it.
func unchecked(root string) ([]string, error) {
	const load, check = "script.Load(", "scripttest.Check("
	folders := map[string]bool{}
	counts := map[string]map[string]int{load: {}, check: {}}
	err := walk(root, ".lua", func(_, name string) error {
		folders[path.Dir(name)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	packages := map[string]bool{}
	err = walk(root, ".go", func(file, name string) error {
		source, err := os.ReadFile(file)
		packages[path.Dir(name)] = true
		what := load
		if strings.HasSuffix(name, "_test.go") {
			what = check
		}
		counts[what][path.Dir(name)] += strings.Count(string(source), what)
		return err
	})
	var found []string
	for folder := range folders {
		in := folder
		if !packages[in] {
			in = path.Dir(in)
		}
		if counts[check][in] < max(1, counts[load][in]) {
			found = append(found, folder)
		}
	}
	slices.Sort(found)
	return found, err
}

// TestEveryFolderIsChecked: no script of the module escapes the rules.
func TestEveryFolderIsChecked(t *testing.T) {
	t.Parallel()
	found, err := unchecked(moduleRoot)
	for _, folder := range found {
		t.Errorf("the tests of %s do not call scripttest.Check with each library", folder)
	}
	if err != nil {
		t.Error(err)
	}

	root := t.TempDir()
	for name, text := range map[string]string{
		"good/a.lua": "", "good/a.go": "script.Load(f)", "good/a_test.go": "scripttest.Check(t, l)",
		"two/a.lua": "", "two/b/b.lua": "", "two/a.go": "script.Load(f) script.Load(g)", "two/a_test.go": "scripttest.Check(t, l)",
		"none/a.lua": "", "none/a.go": "",
	} {
		write(t, root, name, text)
	}
	found, err = unchecked(root)
	if diff := cmp.Diff([]string{"none", "two", "two/b"}, found); diff != "" || err != nil {
		t.Errorf("unchecked folders: %v (-want +got):\n%s", err, diff)
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
