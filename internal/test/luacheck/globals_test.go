package luacheck

import (
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestGlobals asks a real server and miniredis whether they have each name that
// scripts may use.
func TestGlobals(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	inProcess, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{mini.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inProcess.Close)

	names := slices.Clone(globals)
	for library, parts := range members {
		for _, part := range parts {
			names = append(names, library+"."+part)
		}
	}
	for name, client := range map[string]rueidis.Client{
		"a server":  redistest.Shared(t).Client(t),
		"miniredis": inProcess,
	} {
		for _, global := range names {
			if name == "miniredis" && strings.HasPrefix(global, "struct.") {
				continue // package script adds it
			}
			kind, err := client.Do(t.Context(), client.B().Eval().Script("return type("+global+")").Numkeys(0).Build()).ToString()
			if err != nil || kind == "nil" {
				t.Errorf("%s in %s has type %q, error %v", global, name, kind, err)
			}
		}
	}
}
