// Package grafana has no code. It has a dashboard for Grafana 10 or later, millrace.json;
// alert rules for Prometheus, alerts.yaml; and tests that compare both, and docs/METRICS.md,
// with the metrics of Millrace.
//
// # Sources
//
// Numbers in Redis come from /metrics of millrace serve, for all structures, or from the
// collectors of package metrics in a program. Numbers of calls and handlers come from each
// program that has the hook of metrics.New in its structures:
//
//	                 queues, icks, hashes, keys, upkeep, fleet
//	Redis ──▶ millrace serve ──┐
//	                           ├──▶ Prometheus ──▶ the dashboard, the alerts
//	programs ──────────────────┘
//	                 calls, handlers, caches
//
// # How to use them
//
// Let Prometheus scrape millrace serve and the programs, and load the rules:
//
//	scrape_configs:
//	  - job_name: millrace
//	    static_configs: [{targets: ["127.0.0.1:8420"]}]
//	rule_files: [alerts.yaml]
//
// Import millrace.json in Grafana (Dashboards, New, Import) and choose the data source.
// All processes read the same numbers from a Redis, so expressions take the maximum over
// instances, not the sum.
//
// # When not to use them
//
// For memory, persistence and slow commands of the servers, use an exporter for Redis. If
// one Prometheus scrapes several Redises, all expressions need a label that distinguishes
// them, such as the scrape's job; the dashboard and the rules have none.
package grafana
