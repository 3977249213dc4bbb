// Package diagnosis describes the problems of a queue in words, each with its cause.
//
// # The problem
//
// An old message in a queue has many causes: no program reads, a tenant writes more than all
// others, a tenant's handlers are slow, a pause was forgotten. "Add readers" cures one of
// them.
//
// # The mechanism
//
// [OfQueue] looks at one [queuestats.Stats]. It names the tenant, how long the others wait
// meanwhile, and the command that stops it. It judges nothing that Stats does not show: it says
// how long the others wait, and not how long they would wait otherwise.
//
//	what Stats shows                                          finding
//	messages wait, none was ever delivered                    never_read
//	messages wait, no reader lives; the last ones vanished    no_reader, readers_gone
//	messages are abandoned, and no reader takes them          no_reader, readers_gone
//	a reader vanished, others live and have not replaced it   reader_lost
//	its server takes no writes                                no_writes
//	ticks of schedules are late                               schedule_late
//	reading is paused                                         paused
//	a tenant has most of the messages that wait               flood
//	a tenant has a third of the handlers, for long            slow
//	deliveries of a tenant fail again and again               failing
//	a tenant is paused, and its messages wait                 tenant_paused
//	a tenant's own limit or throttle holds its messages back  limited
//	a tenant has as many messages as may wait                 tenant_full
//	a message is old, and no cause above makes it wait        old
//	dead messages are there, and others were dropped          dead_dropped
//
// A message that a pause or a rate holds back waits neither for a reader nor for another
// tenant. Without readers, a flood is only a note. Of many tenants that are full or paused, as
// under a default, three are named and the rest are counted.
//
// Pages, the command, the doctor and metrics show the same findings.
//
// # The wrinkle
//
// Programs that call Read without a name, also over HTTP, do not register as readers. They count by
// their messages in flight.
package diagnosis
