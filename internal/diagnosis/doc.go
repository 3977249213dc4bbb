// Package diagnosis says in words what is wrong with a queue, and who is the cause.
//
// # The problem
//
// An old message in a queue has many causes: nobody reads, a tenant writes more than all
// others, a tenant's handlers are slow, somebody forgot a pause. "Add readers" cures one of
// them.
//
// # The mechanism
//
// [OfQueue] looks at one [fairqueue.Stats]. It names the tenant, how long the others wait
// meanwhile, and the command that stops it. It judges nothing that Stats does not show: it says
// how long the others wait, and not how long they would wait otherwise.
//
//	what Stats shows                                          finding
//	messages wait, none was ever delivered                    never_read
//	messages wait, no reader lives; the last ones vanished    no_reader, readers_gone
//	messages are abandoned, and no reader takes them          no_reader, readers_gone
//	reading is paused                                         paused
//	a tenant has most of the messages that wait               flood
//	a tenant has a third of the handlers, for long            slow
//	a tenant is paused, and its messages wait                 tenant_paused
//	a tenant has as many messages as may wait                 tenant_full
//	a message is old, and nobody above makes it wait          old
//	dead messages are there, and others were dropped          dead_dropped
//
// A message that a pause or a rate holds back waits for no reader and for nobody else. While
// nobody reads, a flood is worth a note only. Of many tenants that are full or paused, as under
// a default, three are named and the rest are counted.
//
// Pages, the command, the doctor and metrics show the same findings.
//
// # The wrinkle
//
// Programs that call Read, also over HTTP, are no readers that the queue knows. They count by
// what they have in flight.
package diagnosis
