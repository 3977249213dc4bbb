package fairqueue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

// TestLimitsOfACutCall: a call ends after a mebibyte. The messages that it leaves count for no
// limit, and keep their turn.
func TestLimitsOfACutCall(t *testing.T) {
	t.Parallel()
	body := make([]byte, 400<<10) // the third one ends a call
	rate := func(may int) queuestats.Limits { return queuestats.Limits{Rate: 0.0001, Burst: may} }
	inFlight := func(may int) queuestats.Limits { return queuestats.Limits{MaxInFlight: may} }
	for _, c := range []struct {
		name  string
		limit func(may int) queuestats.Limits
	}{
		{"a rate", rate},
		{"most in flight", inFlight},
	} {
		for _, may := range []int{4, 6} {
			t.Run(fmt.Sprint(may, " of 6, ", c.name), func(t *testing.T) {
				t.Parallel()
				q := open(t, Config{})
				want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "a", ownOf(c.limit(may))))
				for range 6 {
					if _, err := q.Write(t.Context(), Draft{Tenant: "a", Body: body}); err != nil {
						t.Fatal(err)
					}
				}
				var got []Message
				for calls := 0; ; calls++ {
					some, err := q.Read(t.Context(), ReadConfig{Max: 6, Visibility: time.Hour})
					if errors.Is(err, ErrEmpty) {
						if calls < 2 {
							t.Error("one call had all messages, so this shows nothing")
						}
						break
					}
					want(t, "read", nil, nil, err)
					got = append(got, some...)
				}
				want(t, "messages", len(got), may, nil)
				there, _ := readRaw(t, q)
				for owner, o := range there.owners {
					if n := int(o.n + o.others); n > may {
						t.Errorf("%q has %d in flight", owner, n)
					}
				}
			})
		}
	}
}
