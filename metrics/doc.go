// Package metrics shows Prometheus what the structures of Millrace do.
//
// # The problem
//
// A library that counts by itself either forces its choice of a metrics system on
// everybody who imports it, or hides what it counts in globals that no two parts
// of a program can share. And the numbers that an operator asks for first, how
// much waits and for how long, are in no process at all: they lie in Redis.
//
// # The mechanism
//
// There are two sources, and each has its way here. What this process does comes
// from a hook, which is put into the Config of every structure, once for all:
//
//	registry := prometheus.NewRegistry()
//	hook, err := metrics.New(registry)
//	dirty, err := ick.New(client, "documents", ick.Config{Hooks: []millrace.Hook{hook}})
//
// What lies in Redis comes from a collector for each structure, which asks for the
// structure's Stats at each scrape:
//
//	err = registry.Register(metrics.Collector(dirty))
//
//	program ──▶ structure ──▶ Hook ───────▶ counters, histograms ─┐
//	                │                                             ├─▶ scrape
//	                └───────▶ Redis ◀─ Stats ── collector ────────┘
//
// Everything goes to the Registerer of the caller and carries the prefix millrace_.
// To put more in front, or a label on everything, wrap the Registerer with
// prometheus.WrapRegistererWithPrefix or prometheus.WrapRegistererWith.
//
// # What the hook counts
//
//	millrace_calls_total{script,outcome}         script calls, each try for itself
//	millrace_call_retries_total{script}          those of them that repeat a call
//	millrace_call_seconds{script}                a histogram
//	millrace_handled_total{structure,outcome}    runs of handlers
//	millrace_handle_seconds{structure}           a histogram
//	millrace_pickup_delay_seconds{structure}     how long the oldest of a batch waited
//	millrace_steal_recruited_total{task,via,outcome}
//	millrace_steal_recruit_seconds{task}         all rounds of a recruit that ran
//	millrace_steal_rounds_total{task}            slices
//
// An outcome is ok; or the code of the millrace.Error; or what Redis refused with,
// its first word in lower case, such as loading or readonly, save that a full
// memory is full, as elsewhere; or interrupted, timeout, panic; or error, which of a
// call means chiefly that the connection was lost. The outcomes of recruits are
// those of [steal.Outcome]: worked, idle, and the reasons of an abort. A task is the
// name of a job; Prometheus itself labels everything with a job, that of the scrape.
//
// # What collectors read
//
//	millrace_ick_...{ick}, channel_...{channel}, {channel,ick} for each Ick of it
//	millrace_queue_...{queue}, hashes_...{hashes}, keys_...{keys}, tracker_...{tracker}
//	millrace_fetch_...{cache}          counts of this process; no Redis is asked
//	millrace_steal_...{task}           counts of this process; no Redis is asked
//	millrace_upkeep_...{task}          of UpkeepCollector: recruiters of all processes
//	millrace_fleet_...{partition}      of CensusCollector
//
// [CensusCollector] asks nobody. It shows what somebody saw who went round many
// structures, with the same metrics and labels as if each had a collector: that is
// how millrace serve shows all structures that there are, and the fleet.
// docs/METRICS.md has all metrics, one by one.
//
// A collector waits for Redis two seconds at most. When a structure cannot be read
// the scrape still succeeds: the structure's _up is 0, and its other series are
// absent until it can. A structure that does not exist yet has zeros.
//
// # What is guaranteed
//
//   - No label holds a member, a tenant, a key or an id, so the number of series
//     does not grow with what the program works on. The labels ick, channel,
//     queue, hashes, keys, tracker, cache and task hold names that the program gives
//     to a few structures and jobs; ick of a channel holds an index below the
//     channel's size; script and structure are words of the library, and so are the
//     outcomes of a cache; partition is its number. Of codes of errors at most 64
//     become an outcome, the others are error.
//   - There are no globals: two hooks on two registries know nothing of each
//     other.
//
// # The wrinkle
//
// What a collector reads from Redis is the same whichever process reads it.
// Register it in one process, or take the max and not the sum over instances:
//
//	max by (ick) (rate(millrace_ick_committed_total[5m]))
//
// What a cache did is another's in each process, and there the sum is right:
//
//	sum by (cache, outcome) (rate(millrace_fetch_calls_total[5m]))
//
// A scrape is a call, too, and shows up as one of the script ick.stats.
//
// # When not to use it
//
// A program that makes an Ick for each customer should give its collectors to none
// of them: there, names are not few. The hook may be used all the same.
package metrics
