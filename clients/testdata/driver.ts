// A worker and a writer for clients_test.go. The body of a message says what its handler does.

import { createInterface } from "node:readline";
import { Dead, MillraceError, Queue, Retry, Throttle, type Message } from "millrace";

const say = (...words: unknown[]) => console.log(words.join(" "));
const opened = new Set<string>(); // by a line on stdin
const gates = new Map<string, () => void>();
const seen = new Set<string>();

createInterface({ input: process.stdin }).on("line", (line: string) => {
  opened.add(line);
  gates.get(line)?.();
});

function gate(name: string, lost?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (opened.has(name)) resolve();
    gates.set(name, resolve);
    lost?.addEventListener("abort", () => resolve());
  });
}

async function handle(message: Message): Promise<void> {
  const body = message.body as string;
  say("start", body, message.attempt);
  const batch = message.batch ?? message.headers["millrace-batch"];
  if (batch) say("of", body, batch, message.headers["millrace-batch-handled"] ?? "-");
  const first = !seen.has(body);
  seen.add(body);
  const kind = body.replace(/[0-9]+$/, "");
  if (kind === "hold") {
    await gate(body, message.lost);
    if (message.lost.aborted) return say("lost", body);
  }
  if (kind === "dead") throw new Dead("no such address");
  if (first && kind === "later") throw new Retry("not yet", 10);
  if (first && kind === "fails") throw new Error("an accident \ud800");
  if (first && kind === "throttle") throw new Throttle(50, "429");
  say("end", body);
}

// Writes n messages one by one, and n in batches, whatever happens.
async function write(queue: Queue, n: number): Promise<void> {
  const numbers = Array.from({ length: n }, (_, i) => i);
  const drafts = numbers.map((i) => ({ tenant: `t${i % 3}`, json: { m: i }, delay: 1 }));
  const singles = numbers.map((i) => async (options: { key?: string }) => [await queue.write(`t${i % 3}`, `m${i}`, options)]);
  const batches = numbers.filter((i) => i % 5 === 0).map((i) => (options: { key?: string }) => queue.writeBatch(drafts.slice(i, i + 5), options));
  for (const call of [...singles, ...batches]) {
    let options = {};
    for (let done = false; !done; ) {
      try {
        for (const id of await call(options)) say("wrote", id);
        done = true;
      } catch (failure) {
        if (!(failure instanceof MillraceError)) throw failure;
        options = { key: failure.key };
        say("error", failure.code);
        if (failure.code === "full") await gate("full");
      }
    }
  }
}

// Writes two messages of a batch.
async function count(queue: Queue): Promise<void> {
  const batch = await queue.createBatch("t0", { body: "all", total: 2 });
  await queue.write("t1", { body: "m1", batch });
  await queue.writeBatch([{ tenant: "t2", body: "m2", batch }]);
  say("batch", batch);
}

const { url, token, timeout = 30, write: writes, batch: counts, visibility = 30, block = 5, ...options } = JSON.parse(process.argv[2]!);
const queue = new Queue(url, "orders", { token, timeout: 1000 * timeout });
try {
  if (writes) await write(queue, writes);
  else if (counts) await count(queue);
  else await queue.work(handle, { ...options, visibility: 1000 * visibility, block: 1000 * block });
  say("done");
} catch (failure) {
  if (!(failure instanceof MillraceError)) throw failure;
  say("error", failure.code, "hint:", failure.hint);
}
process.stdin.destroy();
