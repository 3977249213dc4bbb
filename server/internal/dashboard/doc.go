// Package dashboard is the pages that show Millrace at work and let people act on it: one
// http.Handler.
//
// # The problem
//
// An operator who is called at night must know within seconds which queue is stuck, since
// when, and what to do: on a phone, with a slow connection, without reading a manual. Such
// pages often need a large program in the browser, a build for it, and offer a way to delete
// everything with one click.
//
// # The mechanism
//
// The server renders pages from templates; they work without scripts. With scripts they
// stay live: each page has one stream, and after each survey the stream sends those regions
// of the page that have changed.
//
//	           GET /queues/orders                 GET /live/queues/orders
//	browser ──────────────────────▶ page ─┐    ┌──────────────────────▶ stream
//	   ▲                                  │    │                          │
//	   │        whole, once               ▼    ▼                          │
//	   ├◀─────────────────────────────── scene ◀── View, each second      │
//	   │        regions that differ, points of charts                     │
//	   └◀─────────────────────────────────────────────────────────────────┘
//
// Opening a page asks Redis for the data that only this page shows, such as the messages of a
// queue. From then on a scene turns each survey.View into the content of the page. A template
// named "live.NAME" is a region: a stream sends it as an event of that name, and the browser
// replaces only its changed parts, so the focus, an open dialog and a selection survive.
//
// All numbers come from package survey, which asks Redis once for all readers. An open page
// costs Redis nothing more.
//
// # Actions
//
// Pages are read-only unless [Config.Actions] is set. Then they have buttons. Each opens a
// dialog that explains the consequences, but for the pause of a tenant in a list, which is one
// click; an action that cannot be undone needs the name of the structure. A form is sent by
// POST, and the answer redirects to the page, which shows the result, so reloading it repeats
// nothing. Every action is logged with the client's name, and the audit log, which has a page,
// lists it.
//
// Pages cannot release a lease or acknowledge a message: the holder would continue as if
// nothing had happened. They can hand back a message, which its handler learns.
//
// # Guarantees
//
//   - Names, headers and bodies are shown, never interpreted. Templates escape them, invisible
//     characters and changes of text direction are written out, and the browser runs no
//     script and applies no style that is not one of our files.
//   - A GET changes nothing, nor does a form on another site's page, nor any request while
//     actions are off.
//   - Old numbers are marked: when Redis is away, when the survey stands still, and when the
//     browser has lost its connection.
//   - At most 100 pages are live at the same time. Further pages show the numbers from when
//     they were loaded.
//   - No page shows a secret: neither the token of a lease nor a password.
//
// # The wrinkle
//
// The handler does not check access. Package server does; elsewhere put it behind your own
// authentication, and check the Host header, as package server does.
//
// The survey covers 200 structures of a kind, and sums say so. Other queues and dirty lists
// can be opened by name; their pages show the numbers from when they were loaded.
//
// # When not to use it
//
// For alerts and for more than an hour of history: use /metrics. For scripts: use the command
// or the HTTP API.
package dashboard
