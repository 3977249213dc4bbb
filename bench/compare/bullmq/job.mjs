// Runs one job with BullMQ: writes messages, or handles them, until stdin ends. The job is
// in JOB, as in job.go; so are the records.
import { closeSync, openSync, writeSync } from 'node:fs';
import { Queue, Worker } from 'bullmq';

const job = JSON.parse(process.env.JOB);
const records = openSync(job.Records, 'a', 0o600);
const tenantName = (tenant) => `tenant-${tenant}`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const now = () => performance.timeOrigin + performance.now();

// note writes one record for each number: 4 bytes, and nanoseconds in 8, twice.
const nanos = (ms) => BigInt(Math.round(ms * 1000)) * 1000n;
function note(numbers, at, end) {
  const bytes = Buffer.alloc(20 * numbers.length);
  numbers.forEach((number, i) => {
    bytes.writeUInt32LE(number, 20 * i);
    bytes.writeBigUInt64LE(nanos(at), 20 * i + 4);
    bytes.writeBigUInt64LE(nanos(end), 20 * i + 12);
  });
  writeSync(records, bytes);
}

// Trouble with the server is part of the measurements; clients reconnect.
const quiet = (of) => of.on('error', () => {});

const connection = { path: job.URL.replace('unix://', ''), maxRetriesPerRequest: null, enableAutoPipelining: true };
const queues = new Map();
function queueOf(tenant) {
  const name = job.TenantQueues ? tenantName(tenant) : 'compared';
  if (!queues.has(name)) {
    queues.set(name, quiet(new Queue(name, {
      connection: shared ?? connection,
      defaultJobOptions: { removeOnComplete: true },
    })));
  }
  return queues.get(name);
}

let shared;
if (job.TenantQueues) {
  const { Redis } = await import('ioredis');
  shared = quiet(new Redis(connection));
}

async function call(load, index) {
  const count = Math.min(load.Batch, load.Count - index * load.Batch);
  const messages = Array.from({ length: count }, (_, k) => {
    const i = index * load.Batch + k;
    const text = `${load.First + i} ${load.HandlerMs} `.padEnd(100, 'x');
    return { tenant: load.Tenant + (i % load.Tenants), number: load.First + i, data: { b: text } };
  });
  const at = now();
  if (messages.length === 1) {
    await queueOf(messages[0].tenant).add('compared', messages[0].data);
  } else {
    const byQueue = new Map();
    for (const m of messages) {
      const queue = queueOf(m.tenant);
      if (!byQueue.has(queue)) byQueue.set(queue, []);
      byQueue.get(queue).push({ name: 'compared', data: m.data });
    }
    await Promise.all([...byQueue].map(([queue, jobs]) => queue.addBulk(jobs)));
  }
  note(messages.map((m) => m.number), at, now());
}

async function write(load) {
  const calls = Math.ceil(load.Count / load.Batch);
  const began = now();
  let next = 0;
  await Promise.all(Array.from({ length: load.Writers }, async () => {
    while (next < calls) {
      const index = next++;
      if (load.OverMs > 0) {
        const wait = began + (load.OverMs * index) / calls - now();
        if (wait > 0) await sleep(wait);
      }
      await call(load, index);
    }
  }));
}

// Queues of tenants share the handlers of the process; one of them gets half at most.
let free = job.Concurrency;
const waiting = [];
const acquire = () => (free > 0 ? (free--, undefined) : new Promise((go) => waiting.push(go)));
function release() {
  const go = waiting.shift();
  if (go) go();
  else free++;
}

async function handle({ data: { b } }) {
  if (job.TenantQueues) await acquire();
  const [number, ms] = b.split(' ', 2).map(Number);
  const at = now();
  if (ms > 0) {
    note([number], at, 0);
    await sleep(ms);
    note([number], at, now());
  } else {
    note([number], at, at);
  }
  if (job.TenantQueues) release();
}

async function work() {
  const names = job.TenantQueues ? Array.from({ length: job.Tenants }, (_, t) => tenantName(t)) : ['compared'];
  const options = {
    connection: shared ?? connection,
    concurrency: job.TenantQueues ? Math.max(1, job.Concurrency / 2) : job.Concurrency,
    removeOnComplete: { count: 0 },
  };
  if (job.VisibilityMs > 0) {
    Object.assign(options, { lockDuration: job.VisibilityMs, stalledInterval: job.VisibilityMs / 5, maxStalledCount: 10 });
  }
  const workers = names.map((name) => quiet(new Worker(name, handle, options)));
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  console.log('ready');
}

process.stdin.on('end', () => process.exit(0)).resume();
if (job.Loads) {
  for (const load of job.Loads) await write(load);
  closeSync(records);
  process.exit(0);
} else {
  await work();
}
