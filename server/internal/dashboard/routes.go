package dashboard

import "net/http"

// routes puts pages and actions under their paths, without the prefix. A page at
// /path has its stream at /live/path.
func (d *Dashboard) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, p := range []page{
		{"/{$}", "overview", "Overview", d.overview},
		{"/queues", "queues", "Queues", d.queues},
		{"/queues/{name}", "queue", "Queues", d.queue},
		{"/icks", "icks", "Dirty lists", d.icks},
		{"/icks/{name}", "ick", "Dirty lists", d.ick},
		{"/channels/{name}", "channel", "Dirty lists", d.channel},
		{"/stealing", "stealing", "Upkeep", d.stealing},
		{"/leases", "leases", "Leases", d.leases},
		{"/namespaces", "namespaces", "Namespaces", d.namespaces},
		{"/fleet", "fleet", "Fleet", d.fleet},
		{"/counters", "counters", "Counters", d.counters},
		{"/doctor", "doctor", "Doctor", d.examination},
	} {
		mux.HandleFunc("GET "+p.path, d.show(p))
		mux.HandleFunc("GET /live"+p.path, d.stream(p))
	}
	for _, actions := range [][]action{d.queueActions(), d.ickActions()} {
		for _, a := range actions {
			mux.HandleFunc("POST "+a.path, d.act(a))
		}
	}
	mux.HandleFunc("GET /open/{section}", d.open)
	mux.HandleFunc("GET /charts/{kind}/{file}", d.chartJSON)
	mux.HandleFunc("GET /assets/{name}", d.asset)
	mux.HandleFunc("/", d.elsewhere)
	return mux
}
