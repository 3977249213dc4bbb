package dashboard

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/ick"
)

// parkedRequests are the actions on parked members that were chosen.
func (d *Dashboard) parkedRequests(name string) []request {
	return []request{
		{
			ID: "ask-retry", Open: "Retry", Title: "Try the chosen members again?", Path: d.link("icks", name, "retry"), Verb: "Retry", Chosen: true,
			Text: "Each is handed out once more as an old mark, before its rest is over. Its attempts are kept, so one that fails again is parked again.",
		},
		{
			ID: "ask-drop", Open: "Drop", Title: "Forget the chosen members?", Path: d.link("icks", name, "drop"), Verb: "Forget for good",
			Danger: true, Chosen: true, Confirm: plain(name),
			Text: "They stay out of line downstream until they are marked again: nobody will work on them for what they were marked for.",
		},
	}
}

// ickActions are what can be done to an Ick.
func (d *Dashboard) ickActions() []action {
	on := func(word string, do func(ctx context.Context, k *ick.Ick, r *http.Request) (string, error)) action {
		return action{
			path: "/icks/{name}/" + word, word: "ick." + word,
			do: func(ctx context.Context, name string, r *http.Request) (string, error) {
				k, err := ick.New(d.cfg.Client, name, ick.Config{})
				if err != nil {
					return "", err
				}
				return do(ctx, k, r)
			},
			back: func(name string) string { return d.link("icks", name) },
		}
	}
	return []action{on("retry", retryParked), on("drop", dropParked)}
}

func retryParked(ctx context.Context, k *ick.Ick, r *http.Request) (string, error) {
	members, err := picked(r)
	if err != nil {
		return "", err
	}
	n, err := k.Retry(ctx, members...)
	return some(n, len(members), "member", "marked again", "not parked any more"), err
}

func dropParked(ctx context.Context, k *ick.Ick, r *http.Request) (string, error) {
	if err := confirmed(k.Name(), r); err != nil {
		return "", err
	}
	members, err := picked(r)
	if err != nil {
		return "", err
	}
	n, err := k.Drop(ctx, members...)
	return some(n, len(members), "member", "forgotten", "not parked any more"), err
}
