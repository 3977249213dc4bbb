package dashboard

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/ick"
)

// open redirects to the page of a structure by name, also if no list has it.
func (d *Dashboard) open(w http.ResponseWriter, r *http.Request) {
	section, name := r.PathValue("section"), r.URL.Query().Get("name")
	var page string
	switch {
	case section != "queues" && section != "icks":
		d.refuse(w, r, errNoPage)
		return
	case name == "":
		page = d.link(section)
	case section == "icks" && d.isChannel(r.Context(), name):
		page = d.link("channels", name)
	default:
		page = d.link(section, name)
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
}

// isChannel reports whether there is a channel of that name.
func (d *Dashboard) isChannel(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	c, err := ick.NewChannel(d.cfg.Client, name, ick.ChannelConfig{})
	if err == nil {
		_, err = c.Stats(ctx)
	}
	return err == nil
}
