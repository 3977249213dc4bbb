package doctor

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/test/redistest"
)

// scriptsOf examines a server and returns the finding of the check of scripts.
func scriptsOf(t *testing.T, client rueidis.Client) Finding {
	t.Helper()
	for _, f := range examined(t, client).Nodes[0].Findings {
		if f.Check == "scripts" {
			return f
		}
	}
	t.Fatal("the report has no finding about scripts")
	return Finding{}
}

func wantFailed(t *testing.T, got Finding, value, hint string) {
	t.Helper()
	if got.Severity != Critical || !strings.Contains(got.Text, value) || !strings.Contains(got.Advice, hint) {
		t.Errorf("finding = %+v, want a failure with %q and advice with %q", got, value, hint)
	}
}

// TestScriptsRefused examines servers that refuse scripts: the advice depends on the reason.
func TestScriptsRefused(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"EVAL", "EVALSHA"} {
		server := redistest.Start(t, redistest.Options{Args: []string{"--rename-command", command, ""}})
		wantFailed(t, scriptsOf(t, server.Client(t)), "unknown command", "rename-command")
	}
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	for _, rule := range []string{"-eval", "-evalsha"} {
		setUser := admin.B().AclSetuser().Username("app").Rule("reset", "on", ">secret", "~*", "+@all", rule).Build()
		if err := admin.Do(t.Context(), setUser).Error(); err != nil {
			t.Fatal(err)
		}
		app := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })
		wantFailed(t, scriptsOf(t, app), "NOPERM", "ACL SETUSER")
	}
}

// TestLuaUnloaded takes Lua from a server of which it is a module, as of Valkey 9.1.
func TestLuaUnloaded(t *testing.T) {
	t.Parallel()
	shared := redistest.Shared(t).Client(t)
	text, err := shared.Do(t.Context(), shared.B().Info().Section("scriptingengines").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	if info.Parse(text)["engines_count"] == "" {
		t.Skip("Lua is part of this server, and cannot be switched off")
	}
	client := redistest.Start(t, redistest.Options{Args: []string{"--enable-module-command", "yes"}}).Client(t)
	if got := scriptsOf(t, client); got.Severity != OK {
		t.Errorf("finding = %+v of a server with Lua, want ok", got)
	}
	if err := client.Do(t.Context(), client.B().ModuleUnload().Name("lua").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	wantFailed(t, scriptsOf(t, client), "Lua is switched off", "restart")
}

// TestScriptsFailed reads errors as servers gave them.
func TestScriptsFailed(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	const missing = "ERR Could not find scripting engine 'lua'"
	for _, test := range []struct {
		reply, engines string
		value, hint    string
	}{
		{missing, "engines_count:0\r\n", "Lua is switched off", "restart"},
		{missing, "engines_count:1\r\nengine_0:name=JS,module=js,abi_version=4\r\n", "Lua is switched off", "restart"},
		{missing, "", "Could not find", "rename-command"}, // the server does not report its engines
		{
			"NOPERM User app has no permissions to run the 'eval' command",
			"engines_count:1\r\nengine_0:name=LUA,module=lua,abi_version=4\r\n", "NOPERM", "ACL SETUSER",
		},
		{"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "", "BUSY", "repeat"},
	} {
		fails := client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(test.reply).Build()
		err := client.Do(t.Context(), fails).Error()
		wantFailed(t, scriptsFailed(err, info.Parse("# Scripting Engines\r\n"+test.engines)), test.value, test.hint)
	}
}
