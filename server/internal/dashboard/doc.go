// Package dashboard is the pages on which people see what goes on in Millrace, and
// act: one http.Handler, to be put wherever a program likes.
//
// # The problem
//
// Somebody is called at night. In a few seconds they have to know whether something
// stands still, what, since when, and what may be done about it; on a phone, behind a
// bad connection, without having read anything. And by day somebody wants to see
// whether a queue is shaped well, why a message died, who has a lease. What a page
// for that usually brings along is a program in the browser larger than the one that
// it looks at, a build to make it, and a way to delete everything with one click.
//
// # The mechanism
//
// Pages are made on the server, from templates, and read well without any script.
// Where scripts run they stay live: a page has one stream, and each new look of the
// survey sends those regions of the page that have become different.
//
//	           GET /queues/orders                 GET /live/queues/orders
//	browser ──────────────────────▶ page ─┐    ┌──────────────────────▶ stream
//	   ▲                                  │    │                          │
//	   │        whole, once               ▼    ▼                          │
//	   ├◀─────────────────────────────── scene ◀── View, each second      │
//	   │        regions that differ, points of charts                     │
//	   └◀─────────────────────────────────────────────────────────────────┘
//
// A page is opened once, and asks Redis for what only it wants: the
// messages of a queue. From then on a scene makes of each
// survey.View what the page shows. In a template each part that is called "live.NAME"
// is a region; a stream sends it as an event of that name, and the browser changes
// what differs and nothing else: the focus stays, a dialog stays open, what is being
// selected stays selected.
//
// Numbers come from package survey, which asks Redis once for all who look. So a
// page costs Redis nothing by being open, however many there are.
//
// # Actions
//
// Pages are to look at, unless [Config.Actions] says otherwise: then they have
// buttons. Behind each is a dialog that says what will happen before it does, and for
// what cannot be undone asks for a name. What is sent is a form, by POST; the answer
// sends its author back to the page, which says what came of it. So a page that is
// loaded again does nothing again. Every action is logged, with who did it.
//
// A lease cannot be released from here, and a message cannot be acknowledged: that
// takes a token or a receipt, and whoever has it would go on as if nothing had
// happened.
//
// # What is guaranteed
//
//   - Names, headers and bodies are shown and never obeyed. Templates escape them,
//     what is invisible or turns the direction of text is written out, and the
//     browser is told to run nothing and apply no style that is not a file of ours.
//   - Nothing is changed by a GET, nor by a form on the page of another site, nor
//     while actions are off.
//   - Numbers that are old say so: when Redis is away, when the survey stands still,
//     and when the connection to the browser is lost.
//   - At most 100 pages are live at the same time. The next one shows the numbers of
//     when it was loaded.
//   - No page shows a secret: a lease's token is not on it, and neither is a password.
//
// # The wrinkle
//
// Who may ask is not decided here: everybody who reaches the handler sees
// everything. Package server has credentials in front of it; put it behind your own
// otherwise. And a name that somebody's page can make lead to your address is a way
// in for that page: check the Host as package server does.
//
// The survey looks at 200 structures of a kind, and sums say when they are of those
// only. Other queues and Icks are opened by their names, and have pages that show the
// numbers of when they were loaded.
//
// # When not to use it
//
// For alarms: they belong to what scrapes /metrics, which does not sleep. For more
// than an hour of history, the same. And for what a script is to do, use the command
// or the HTTP API.
package dashboard
