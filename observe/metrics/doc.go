// Package metrics reports the work of Millrace's structures to Prometheus.
//
// # The problem
//
// A library that counts by itself either forces one metrics system on all its users, or
// hides its counts in globals that two parts of a program cannot share. And the numbers
// that an operator needs first, how much waits and for how long, are in no process: they
// are in Redis.
//
// # The mechanism
//
// There are two sources. A hook counts the work of this process. Put it into the Config of
// every structure:
//
//	registry := prometheus.NewRegistry()
//	hook, err := metrics.New(registry)
//	dirty, err := ick.New(client, "documents", ick.Config{Hooks: []millrace.Hook{hook}})
//
// A collector for each structure reads its Stats from Redis at each scrape. Each kind of
// structure has a package for it, so that a program compiles no structure that it does not use:
//
//	err = registry.Register(ickmetrics.Collector(dirty))
//
//	program ──▶ structure ──▶ Hook ───────▶ counters, histograms ─┐
//	                │                                             ├─▶ scrape
//	                └───────▶ Redis ◀─ Stats ── collector ────────┘
//
// All metrics go to the Registerer of the caller and have the prefix millrace_. For
// another prefix or a label on all of them, wrap the Registerer with
// prometheus.WrapRegistererWithPrefix or prometheus.WrapRegistererWith.
//
// # Metrics of the hook
//
//	millrace_calls_total{script,outcome}         script calls; each try counts
//	millrace_call_retries_total{script}          tries that repeat a call
//	millrace_call_seconds{script}                a histogram
//	millrace_handled_total{structure,outcome}    runs of handlers
//	millrace_handle_seconds{structure}           a histogram
//	millrace_pickup_delay_seconds{structure}     how long the oldest of a batch waited
//	millrace_steal_recruited_total{task,via,outcome}
//	millrace_steal_recruit_seconds{task}         recruits that ran, all slices together
//	millrace_steal_rounds_total{task}            slices
//
// An outcome is ok; the code of a millrace.Error; the first word of an error of Redis in
// lower case, such as loading or readonly (full if its memory is full); interrupted,
// timeout or panic; throttled for a handler that returned fairqueue.Throttle; or error, which for a call is usually a lost connection. Outcomes of
// recruits are those of package steal. A task is the name of a job; Prometheus itself
// uses the label job for the scrape.
//
// # Metrics of collectors
//
//	millrace_queue_...{queue}                     queuemetrics
//	millrace_ick_...{ick}, channel_...{channel}   ickmetrics; {channel,ick} for the Icks of a channel
//	millrace_hashes_...{hashes}                   expirymetrics
//	millrace_keys_...{keys}                       pinnedmetrics
//	millrace_tracker_...{tracker}                 trackermetrics
//	millrace_upkeep_...{task}                     upkeepmetrics: recruiters of all processes
//	millrace_fetch_...{cache}                     fetchmetrics: counts of this process, without Redis
//	millrace_steal_...{task}                      stealmetrics: counts of this process, without Redis
//
// Register a collector once for each registry and name. Collectors of Icks, channels,
// hashes and keys also take a function that returns the Stats of many, with the same metrics
// and labels; for queues it is queuemetrics.Many. With it millrace serve shows all structures; it shows the fleet, too
// (millrace_fleet_...{partition}). docs/METRICS.md lists all metrics.
//
// A collector waits at most two seconds for Redis. If a structure cannot be read, the
// scrape still succeeds: its _up is 0, and its other series are absent. A structure that
// does not exist yet has zeros.
//
// # Guarantees
//
//   - No label has a member, a tenant, a key or an id, so the number of series does not
//     grow with the work. The labels ick, channel, queue, hashes, keys, tracker, cache and
//     task have names that the program chooses for a few structures and jobs; ick of a
//     channel is an index, and partition a number; script, structure and the outcomes of a
//     cache are words of the library. At most 64 codes of errors are outcomes; other errors
//     have the outcome error.
//   - There are no globals: hooks on different registries are independent.
//
// # The wrinkle
//
// A collector reads the same from Redis in each process. Register it in one
// process, or take the maximum over instances instead of the sum:
//
//	max by (ick) (rate(millrace_ick_committed_total[5m]))
//
// The counts of a cache are different in each process, so the sum is right:
//
//	sum by (cache, outcome) (rate(millrace_fetch_calls_total[5m]))
//
// A scrape is a call as well, and is counted with the script ick.stats.
//
// # When not to use it
//
// A program with an Ick for each customer should not register their collectors: it would
// have too many series. It can still use the hook.
package metrics
