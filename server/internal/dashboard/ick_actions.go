package dashboard

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/ick"
)

// parkedRequests are the actions on selected parked members.
func (d *Dashboard) parkedRequests(name string) []request {
	return []request{
		{
			ID: "ask-retry", Open: "Retry", Title: "Retry the selected members?", Path: d.link("icks", name, "retry"), Verb: "Retry", Chosen: true,
			Text: "Consumers receive them again now. Their attempts are kept, so a member that fails again is parked again.",
		},
		{
			ID: "ask-drop", Open: "Drop", Title: "Delete the selected members?", Path: d.link("icks", name, "drop"), Verb: "Delete",
			Danger: true, Chosen: true, Confirm: plain(name),
			Text: "Nobody works on their last change: downstream data stays out of date until they are marked again.",
		},
	}
}

// ickActions are the actions on dirty lists.
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
	return some(n, len(members), "member", "deleted", "not parked any more"), err
}
