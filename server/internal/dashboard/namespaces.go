package dashboard

import (
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/pinned"
)

// namespacePage is the namespaces of hashes whose fields expire, and of pinned
// values.
type namespacePage struct {
	heading

	Looked  bool
	Hashes  []expiry.Stats
	Keys    []pinned.Stats
	LeftOut int
}

func (d *Dashboard) namespaces(*asked) (scene, error) {
	return func(v *survey.View) body {
		return namespacePage{
			heading: heading{Title: "Namespaces"}, Looked: !v.Named.IsZero(),
			Hashes: v.Hashes, Keys: v.Keys, LeftOut: v.LeftOut[survey.Hashes] + v.LeftOut[survey.Keys],
		}
	}, nil
}
