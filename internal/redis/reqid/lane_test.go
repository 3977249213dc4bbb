package reqid_test

import (
	"testing"
	"testing/fstest"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsKeepTheRules checks the fragments in front of a script.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, script.Load(fstest.MapFS{"add.lua": {Data: []byte(`-- test.add(K) -> number
--
-- Is there for the fragments in front of it.
--
-- Needs    lane, tidy
-- Touches  nothing
-- KEYS[1]  K
-- ARGV     none
-- Reply    how many answers were forgotten
-- Cost     O(1)
-- Repeat   harmless
return answered or answer(tostring(tidy_lanes()))
`)}}, "K:"))
}

// TestClonedMachine: of two processes with the same lanes, both calls take effect.
func TestClonedMachine(t *testing.T) {
	t.Parallel()
	counting := script.Load(fstest.MapFS{"add.lua": {Data: []byte(`-- test.add(K) by -> number
-- Needs    lane
return answered and tonumber(answered) or tonumber(answer(tostring(redis.call('HINCRBY', K, 'n', ARGV[1]))))
`)}}, "K:")
	client := redistest.Shared(t).Client(t)
	key := "{" + redistest.Name(t) + "}"
	one := &reqid.Lanes{}
	runner := script.Runner{Client: client, Scripts: counting, Lanes: one}
	if _, err := runner.Run(t.Context(), "add", key, "1"); err != nil {
		t.Fatal(err)
	}
	clone := script.Runner{Client: client, Scripts: counting, Lanes: one.Clone()}
	for i, r := range []*script.Runner{&runner, &clone, &runner, &clone, &clone} {
		reply, err := r.Run(t.Context(), "add", key, "1")
		if err != nil || reply.Int() != int64(i+2) {
			t.Fatalf("call %d = %v, want %d", i+2, err, i+2)
		}
	}
	again := script.Runner{Client: client, Scripts: counting, Lanes: one.Clone()}
	for i, r := range []*script.Runner{&runner, &again} {
		request := r.Request(t.Context())
		reply, err := r.RunRequest(t.Context(), request, "add", key, "1")
		if err != nil || reply.Int() != int64(i+7) {
			t.Fatalf("call %d = %v, want %d", i+7, err, i+7)
		}
		request.Done()
	}
}
