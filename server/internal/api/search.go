package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

// SearchQuery selects dead messages by their fields.
type SearchQuery struct {
	Named
	ops.Search

	Reason document.Text `query:"reason" doc:"Their reason, whole. Defaults to any." example:"\"no such article\""`
}

func (in SearchQuery) config() (fairqueue.SearchConfig, error) {
	cfg, err := in.Config()
	cfg.Reason = string(in.Reason)
	return cfg, err
}

type deadGroups struct {
	Groups []deadGroup `json:"groups"`
	ops.Searched
}

type deadGroup struct {
	Reason document.Text `json:"reason" doc:"Why they are dead." example:"\"no such article\""`
	Count  int           `json:"count" doc:"How many have it." example:"1"`
	Oldest time.Time     `json:"oldest" doc:"The first death, in UTC."`
	Newest time.Time     `json:"newest" doc:"The last death, in UTC."`
}

func groupDead(ctx context.Context, q *fairqueue.Queue, in *SearchQuery) (doc deadGroups, err error) {
	cfg, err := in.config()
	if err != nil {
		return doc, err
	}
	groups, found, err := q.Dead().Groups(ctx, cfg)
	doc = deadGroups{make([]deadGroup, len(groups)), ops.SearchedOf(found)}
	for i, g := range groups {
		doc.Groups[i] = deadGroup{document.Text(g.Reason), g.Count, g.Oldest.UTC(), g.Newest.UTC()}
	}
	return doc, err
}
