import { Service, duration, encoded, newKey, type Duration, type Json } from "./http.js";
import { Worker, type Message } from "./worker.js";

/** A message to write. */
export interface Draft {
  body?: string | Uint8Array;
  json?: unknown; // the body as a JSON value
  headers?: Record<string, string>;
  priority?: number; // among the messages of the tenant, -4 to 4
  cost?: number; // such as tokens of a model
  delay?: Duration; // before the first delivery
  deadline?: Duration; // after which it expires
  dedupe?: string; // the tenant writes once under it in 5 minutes
  source?: string; // numbers its messages
  position?: number; // the number
  batch?: string; // that counts it
}

/** The message that says that a batch is done. */
export type BatchDraft = Pick<Draft, "body" | "json" | "headers" | "priority" | "cost" | "deadline"> & { total?: number };

export interface QueueOptions {
  /** One of those that the service was given; see docs/SECURITY.md. */
  token?: string;
  /** For so many milliseconds writes are repeated while the service or its Redis is away. Defaults to 30,000. */
  timeout?: number;
}

export interface WorkOptions {
  /** How many messages are handled at once, 1 to 1,000. Defaults to 10. */
  concurrency?: number;
  /** Ends the work as SIGTERM does; no signals of the process are handled then. */
  signal?: AbortSignal;
  /** The milliseconds after which the messages of a killed worker come again. Defaults to 30,000. */
  visibility?: number;
  /** The milliseconds for which a request waits for messages. Defaults to 5,000. */
  block?: number;
  /** A name that no other worker has. Defaults to the host, the process and a random text. */
  worker?: string;
}

/** A queue of the service at a URL. */
export class Queue {
  private readonly service: Service;
  private readonly path: string;
  private readonly timeout: number;

  constructor(
    url: string,
    readonly name: string,
    { token, timeout = 30_000 }: QueueOptions = {},
  ) {
    this.service = new Service(url, token);
    this.path = "/v1/queues/" + encodeURIComponent(name);
    this.timeout = timeout;
  }

  /**
   * Writes a message once, however often the request is repeated, and returns its id, which is "" if
   * the position was written before. Calls with the same key, such as "welcome-" + message.id in
   * a handler that may run twice, write one message in 24 hours; else each call writes one.
   * Rejects with a MillraceError, such as tenant_full for a tenant with as many messages as it may
   * have, or full.
   */
  async write(tenant: string | Uint8Array, message: string | Uint8Array | Draft, { key }: { key?: string } = {}): Promise<string> {
    const draft = typeof message === "string" || message instanceof Uint8Array ? { body: message } : message;
    return (await this.post("/messages", document({ ...draft, tenant }), key))["id"];
  }

  /**
   * Creates a batch of so many messages (total), or of any number until it is closed, and returns its id. When all messages
   * that were written with the id have ended, the queue writes the message that is given here, with the
   * counts in its headers. Calls with the same key create one batch.
   */
  async createBatch(tenant: string | Uint8Array, done: BatchDraft, { key }: { key?: string } = {}): Promise<string> {
    return (await this.post("/batches", document({ ...done, tenant }), key))["id"];
  }

  /**
   * Writes up to 1,000 messages once, all or none, and returns their ids. A message that the queue
   * refuses, such as tenant_full, stops no other; after such a MillraceError the same call with its
   * key writes only the refused ones.
   */
  async writeBatch(messages: (Draft & { tenant: string | Uint8Array })[], { key }: { key?: string } = {}): Promise<string[]> {
    const answer = await this.post("/messages/batch", { messages: messages.map(document) }, key);
    return answer["messages"].map((m: Json) => m["id"]);
  }

  /**
   * Calls the handler for each message until SIGTERM or SIGINT. When it returns, or its promise is
   * fulfilled, the message is acknowledged. When it throws, the message comes again after a second,
   * two, four, ...; see Retry, Dead and Throttle. It may take longer than visibility, unless it
   * blocks the event loop. Messages of killed workers come again, so it must be idempotent.
   *
   * At a signal, work takes no more messages, lets handlers finish, settles all, and returns; a second
   * signal ends the process. It outlasts restarts of the service and of Redis. It rejects with
   * a MillraceError that a repeat would not help, such as forbidden, after the handlers have finished.
   */
  work(handler: (message: Message) => unknown, options: WorkOptions = {}): Promise<void> {
    return new Worker(this.service, this.path, handler, options).run(options.signal);
  }

  private async post(path: string, body: Json, key = newKey()): Promise<Json> {
    return (await this.service.post(this.path + path, body, { key, repeat: this.timeout })).answer;
  }
}

/** Returns a draft as requests have it. */
function document(draft: Draft & { tenant: string | Uint8Array }): Json {
  const all: Json = { ...draft, tenant: encoded(draft.tenant) };
  if (draft.body !== undefined) all["body"] = encoded(draft.body);
  if (draft.delay !== undefined) all["delay"] = duration(draft.delay);
  if (draft.deadline !== undefined) all["deadline"] = duration(draft.deadline);
  return all;
}
