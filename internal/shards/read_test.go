package shards

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
	"github.com/millrace/millrace/internal/shards/shardstest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestReadsShareTheTime: reads that go out together ask for the time once.
func TestReadsShareTheTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	reads := make([]read, 10)
	for i := range reads {
		base := "{" + strconv.Itoa(i) + "}"
		shardstest.Must(t, client, "HSET", base, "a", shardstest.HeadOf(time.Now().Add(time.Hour))+fmt.Sprint("value ", i))
		reads[i] = read{base, base, []string{"a"}}
	}
	before := shardstest.Asked(server)
	r := &readers{client: client}
	answers, err := r.call(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		stored, err := a.stored[0].ToString()
		value, _, ok, broken := Decode(stored, a.now, "a")
		if err != nil || broken != nil || !ok || string(value) != fmt.Sprint("value ", i) {
			t.Errorf("answer %d = %q, %v, %v, %v", i, value, ok, err, broken)
		}
	}
	after := shardstest.Asked(server)
	if after["hget"]-before["hget"] != 10 || after["time"]-before["time"] != 1 {
		t.Errorf("10 reads were %d HGET and %d TIME", after["hget"]-before["hget"], after["time"]-before["time"])
	}
}

func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, script.Load(Scripts, "K:"))
}
