package fairqueue

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
)

func TestPieces(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q, _ := New(client, "x", Config{})
	ctx := t.Context()
	for i := range 100 {
		q.Write(ctx, Draft{Tenant: fmt.Sprint("t", i%50), Body: make([]byte, 100)})
	}
	time1 := func(name, src string, args ...string) {
		src = "local A = ARGV for i = 1, 3000 do local ARGV = {unpack(A)} ARGV[#ARGV] = string.format('%016d', i) .. string.sub(A[#A], 17) ; (function() " + library.Prelude() + src + " end)() end return 1"
		args = append(args, "l:1", "0000000000000001AAAAAAAAAAA")
		c0 := cpu(server)
		err := client.Do(ctx, client.B().Eval().Script(src).Numkeys(1).Key(baseKey("x")).Arg(args...).Build()).Error()
		t.Logf("%-20s %.1f %v", name, (cpu(server)-c0)*1e6/3000, err)
	}
	for range 2 {
		time1("nothing", "return 1")
		time1("hmget+time", "redis.call('HMGET', K, 'version', 'virtual', 'last') redis.call('TIME') return 1")
		rec := library.Text("record.lua")
		time1("record", rec+"\nreturn 1")
		time1("record turns", rec+library.Text("turns.lua")+"\nreturn 1")
		time1("record turns flight", rec+library.Text("turns.lua")+library.Text("flight.lua")+"\nreturn 1")
		time1("record turns flight wake", rec+library.Text("turns.lua")+library.Text("flight.lua")+library.Text("wake.lua")+"\nreturn 1")
		time1("lane", library.Text("lane.lua")+"\nreturn 1")
		time1("lane+answer", library.Text("lane.lua")+"\nanswer('1795365262644189') return 1")
		all := rec + library.Text("turns.lua") + library.Text("wake.lua") + library.Text("lane.lua")
		time1("all+lane", all+"\nreturn 1")
		time1("write", all+library.Text("flight.lua")+library.Text("write.lua"), "0", "300000", "0", "", "=t1", "4", string(make([]byte, 101)))
		time1("read", all+library.Text("work.lua"), "r", "1", "30000", "0", "0", "ABCDEFGH")
	}
}
