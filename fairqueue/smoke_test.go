package fairqueue

import (
	"fmt"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	check := func(what string) {
		t.Helper()
		r, _ := readRaw(t, q)
		if text := r.wrongs(); text != "" {
			t.Fatalf("%s: %s", what, text)
		}
	}
	for i := range 50 {
		if _, err := q.Write(t.Context(), Draft{Tenant: fmt.Sprint("t", i%3), Body: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
		check("write")
	}
	write(t, q, "a:1 b:2 c:3 a:4")
	check("batch")
	for range 30 {
		m := read(t, q, 1)
		check("read")
		ack(t, q, m[0])
		check("ack")
	}
	for i := range 5 {
		m := read(t, q, 2)
		check("read 2")
		nack(t, q, NackConfig{Delay: time.Duration(i%2) * time.Hour}, m[0])
		check("nack")
	}
	for len(read(t, q, 100)) > 0 {
		check("rest")
	}
	t.Logf("%+v", stats(t, q))
}
