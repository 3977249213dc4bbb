// Package grafana has no code. It has a dashboard for Grafana 10 or later,
// millrace.json; alert rules for Prometheus, alerts.yaml; and tests that hold both, and
// docs/METRICS.md, to the metrics that Millrace really has.
//
// # What they show
//
// Numbers that lie in Redis come from the /metrics of millrace serve, which sees all
// structures, or from the collectors of package metrics in a program. Numbers of calls
// and handlers come from each program that puts the hook of metrics.New into its structures:
//
//	                 queues, icks, hashes, keys, upkeep, fleet
//	Redis ──▶ millrace serve ──┐
//	                           ├──▶ Prometheus ──▶ the dashboard, the alerts
//	programs ──────────────────┘
//	                 calls, handlers, caches
//
// # How to use them
//
// Have Prometheus scrape millrace serve and the programs, and give it the rules:
//
//	scrape_configs:
//	  - job_name: millrace
//	    static_configs: [{targets: ["127.0.0.1:8420"]}]
//	rule_files: [alerts.yaml]
//
// Import millrace.json in Grafana (Dashboards, New, Import) and choose the data source.
// What two processes read from the same Redis is the same, so all expressions take
// the max over instances, and not the sum.
//
// # When not to use them
//
// Memory, persistence and slow commands of the Redis servers themselves are the
// business of an exporter for Redis, of which there are good ones. One Prometheus
// for several Redises needs a label that tells them apart, such as the scrape's job,
// in all expressions; the dashboard and the rules do not have it.
package grafana
