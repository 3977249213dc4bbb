import { MillraceError, Service, decoded, duration, newKey, sleep, type Duration, type Json } from "./http.js";
import type { WorkOptions } from "./queue.js";

// The process of Node, if there is one.
declare const process: { pid: number; on(signal: string, f: () => void): void; off(signal: string, f: () => void): void } | undefined;

const grace = 50; // milliseconds after which results do not wait for the round that is waiting for messages
const longestBeat = 20_000; // between signs of life; the service forgets a worker after 60 s
const signals = ["SIGTERM", "SIGINT"];

/** One delivery of a message. */
export class Message {
  readonly id: string;
  readonly receipt: string;
  readonly tenant: string | Uint8Array;
  readonly body: string | Uint8Array; // bytes if it is not UTF-8
  readonly headers: Record<string, string | Uint8Array>;
  readonly attempt: number; // counts deliveries, from 1 on
  readonly priority: number;
  readonly cost: number;
  readonly batch?: string; // that counts it
  readonly pickup_delay_ms: number;

  constructor(
    document: Json,
    /** Aborted when the message belongs to another worker, or was cancelled: stop, the outcome does not count. */
    readonly lost: AbortSignal,
  ) {
    this.id = document["id"];
    this.receipt = document["receipt"];
    this.tenant = decoded(document["tenant"]);
    this.body = decoded(document["body"]);
    this.headers = Object.fromEntries(Object.entries(document["headers"]).map(([name, value]) => [name, decoded(value)]));
    this.attempt = document["attempt"];
    this.priority = document["priority"] ?? 0;
    this.cost = document["cost"] ?? 1;
    this.batch = document["batch"];
    this.pickup_delay_ms = document["pickup_delay_ms"];
  }

  /** The value of a body that is JSON. */
  get json(): any {
    return JSON.parse(this.body as string);
  }
}

/** Thrown by a handler: the message comes again after the delay, by default after longer each time. */
export class Retry extends Error {
  constructor(reason = "", readonly delay?: Duration) {
    super(reason);
    if (typeof delay === "number" && !(delay >= 0)) throw new RangeError(`the delay of a retry is ${delay}`);
  }
}

/** Thrown by a handler: the message is dead, and does not come again unless it is redriven. */
export class Dead extends Error {}

/** Thrown by a handler: messages of this tenant wait for the delay, as after a 429. It is no attempt. */
export class Throttle extends Error {
  constructor(readonly delay: Duration, reason = "") {
    super(reason);
    if (typeof delay === "number" && !(delay >= 1)) throw new RangeError(`a tenant waits for a millisecond at least, not ${delay}`);
  }
}

type Results = Record<string, unknown[]>;

/** Wakes those that wait for a change. */
class Change {
  private waiters = new Set<() => void>();

  /** Waits until the next notify, or for some milliseconds. */
  next(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.waiters.delete(wake);
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(wake, ms);
      this.waiters.add(wake);
    });
  }

  notify(): void {
    for (const wake of [...this.waiters]) wake();
  }
}

/**
 * One call of Queue.work. Three loops make requests. One takes messages, and settles with the
 * same requests. While its request waits for messages, the second one settles. The third one
 * keeps messages that handlers have for long.
 */
export class Worker {
  private readonly concurrency: number;
  private readonly visibility: number;
  private readonly block: number;
  private readonly interval: number;
  private name: string | undefined;

  private readonly running = new Map<string, AbortController>(); // by receipt
  private ended: Results = {}; // results that no request has: { ack: [RECEIPT, ...], ... }
  private waiting: number | undefined; // since when a request waits for messages
  private lastRound = performance.now();
  private draining = false;
  private left = false; // the service knows that it ends
  private giveUp: number | undefined; // when the last results are no longer worth a repeat
  private over = false;
  private failure: unknown;

  private readonly changed = new Change();
  private readonly beatNow = new Change();
  private stop = (): void => {};

  constructor(
    private readonly service: Service,
    private readonly path: string,
    private readonly handler: (message: Message) => unknown,
    { concurrency = 10, visibility = 30_000, block = 5_000, worker }: WorkOptions,
  ) {
    if (!(concurrency >= 1 && concurrency <= 1000)) throw new RangeError(`concurrency is 1 to 1000, not ${concurrency}`);
    this.concurrency = concurrency;
    this.visibility = visibility;
    this.block = block;
    this.name = worker;
    this.interval = Math.min(visibility / 3, longestBeat);
  }

  async run(signal?: AbortSignal): Promise<void> {
    this.name ??= await ownName();
    const node = signal || typeof process === "undefined" ? undefined : process;
    const stopped = new Promise<void>((resolve) => (this.stop = resolve));
    const onSignal = () => {
      for (const s of signals) node?.off(s, onSignal); // a second one ends the process
      this.stop();
    };
    for (const s of signals) node?.on(s, onSignal);
    signal?.addEventListener("abort", this.stop);
    if (signal?.aborted) this.stop();

    const [taking, settling, beating] = [this.take(), this.settle(), this.beat()];
    await stopped;
    this.draining = true;
    this.changed.notify();
    await taking; // handlers get what its last request brings
    while (this.running.size > 0) await this.changed.next();
    this.giveUp = performance.now() + this.visibility;
    this.changed.notify();
    await settling;
    this.over = true;
    this.beatNow.notify();
    await beating;
    for (const s of signals) node?.off(s, onSignal);
    signal?.removeEventListener("abort", this.stop);
    if (this.failure) throw this.failure;
  }

  private fail(failure: unknown): void {
    this.failure ??= failure;
    this.stop();
  }

  /** Takes messages while handlers are free. */
  private async take(): Promise<void> {
    while (!this.draining) {
      const free = this.concurrency - this.running.size;
      if (free === 0) {
        await this.changed.next();
        continue;
      }
      const began = (this.waiting = performance.now());
      try {
        const messages = await this.round(free, this.takeEnded());
        for (const m of messages) void this.handle(m);
        this.waiting = undefined;
        this.left = false; // the round may have come after that
        if (messages.length === 0 && performance.now() - began < this.block / 2) {
          await sleep(100 + 200 * Math.random()); // the service is about to end, and does not wait
        }
      } catch (failure) {
        this.waiting = undefined;
        this.fail(failure);
        return;
      }
    }
  }

  /** Settles while no other round will do it soon. */
  private async settle(): Promise<void> {
    for (;;) {
      const some = Object.keys(this.ended).length > 0;
      const leaves = this.draining && (!this.left || some);
      if (!leaves && this.giveUp !== undefined) return;
      let soon: number | undefined; // the next round takes them
      if (leaves) soon = 0;
      else if (some && this.waiting !== undefined) soon = this.waiting + grace - performance.now();
      if (soon === undefined || soon > 0) {
        await this.changed.next(soon);
        continue;
      }
      this.left = leaves;
      try {
        await this.round(0, this.takeEnded(), leaves);
      } catch (failure) {
        this.fail(failure);
      }
    }
  }

  private takeEnded(): Results {
    const ended = this.ended;
    this.ended = {};
    return ended;
  }

  private add(how: string, ...results: unknown[]): void {
    (this.ended[how] ??= []).push(...results);
    this.changed.notify();
  }

  /** Settles, and takes messages, or ends the round that waits. It is repeated until it is answered. */
  private async round(max: number, ended: Results, leave = false): Promise<Json[]> {
    const wait = max > 0 ? this.block : 0;
    const request = {
      ...ended, ...(leave ? { leave } : {}), worker: this.name, concurrency: this.concurrency, max, visibility: duration(this.visibility), block: duration(wait),
    };
    for (;;) {
      try {
        // The answer to a key is that of the first try for so long; the receipts of an older one are stale.
        const options = { key: newKey(), repeat: 0.8 * this.visibility, wait, full: true };
        const { answer, repeated } = await this.service.post(this.path + "/work", request, options);
        this.lastRound = performance.now();
        if (answer["stale"].length > 0 && !repeated) {
          console.warn(`millrace: ${answer["stale"].length} messages were handled too late, or cancelled: others may handle them again`);
        }
        if (repeated && answer["messages"].length > 0) setTimeout(() => this.beatNow.notify()); // they may have been taken a while ago
        return answer["messages"];
      } catch (failure) {
        if (!(failure instanceof MillraceError && (failure.temporary || failure.status === 507))) throw failure;
        console.warn(`millrace: a round failed and is repeated: ${failure.message}`);
        if (this.giveUp !== undefined && performance.now() > this.giveUp) throw failure;
        if (max > 0 && this.draining) { // the other loop settles
          for (const [how, results] of Object.entries(ended)) this.add(how, ...results);
          return [];
        }
      }
    }
  }

  private async handle(document: Json): Promise<void> {
    const receipt: string = document["receipt"];
    const lost = new AbortController();
    this.running.set(receipt, lost);
    const message = new Message(document, lost.signal);
    let how = "ack";
    let result: unknown = receipt;
    try {
      await this.handler(message);
    } catch (failure) {
      const known = failure instanceof Retry || failure instanceof Dead || failure instanceof Throttle;
      if (!known) console.error(`millrace: the handler failed with message ${message.id}, attempt ${message.attempt}:`, failure);
      const delay = failure instanceof Retry || failure instanceof Throttle ? failure.delay : undefined;
      how = failure instanceof Dead ? "dead" : failure instanceof Throttle ? "throttle" : "nack";
      result = { receipt, reason: readable(known ? failure.message : String(failure)), ...(delay === undefined ? {} : { delay: duration(delay) }) };
    }
    this.running.delete(receipt);
    if (!lost.signal.aborted) this.add(how, result);
    this.changed.notify();
  }

  /** Keeps messages while handlers have them, and this worker known while it takes none, until it ends. */
  private async beat(): Promise<void> {
    while (!this.over) {
      await this.beatNow.next(this.interval);
      const receipts = [...this.running.keys()];
      if (receipts.length === 0) continue;
      try {
        await this.extend(receipts);
        if (performance.now() - this.lastRound > this.interval && !this.draining) await this.round(0, {});
      } catch (failure) {
        console.warn(`millrace: messages were not extended: ${failure}`);
      }
    }
  }

  private async extend(receipts: string[]): Promise<void> {
    let stale = receipts; // all of them
    try {
      const request = { receipts, visibility: duration(this.visibility) };
      stale = (await this.service.post(this.path + "/extend", request, { repeat: this.interval })).answer["stale_receipts"];
    } catch (failure) {
      if (!(failure instanceof MillraceError && failure.code === "stale")) throw failure;
    }
    for (const receipt of stale) this.running.get(receipt)?.abort();
  }
}

/** Returns a reason without what is no Unicode, which a request must not have. */
function readable(reason: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(reason.slice(0, 500)));
}

async function ownName(): Promise<string> {
  const os = "node:os"; // elsewhere there is none
  const host = await import(os).then((module) => module.hostname()).catch(() => "host");
  return `${host}/${typeof process === "undefined" ? 0 : process.pid}/${newKey().slice(0, 8)}`;
}
