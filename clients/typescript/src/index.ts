// Distributes work over Millrace: https://github.com/millrace/millrace
// Fields have the names that they have over HTTP: docs/HTTP.md.

export { MillraceError, type Duration } from "./http.js";
export { Queue, type BatchDraft, type Draft, type QueueOptions, type WorkOptions } from "./queue.js";
export { Dead, Message, Retry, Throttle } from "./worker.js";
