// A worker that sends mails, for docs/FROM_BULLMQ.md and from_test.go.

import { Dead, Queue, Throttle, type Message } from "millrace";

interface Mail {
  customer: string;
  to: string;
  key: string; // of the request that asked for it
}

const mails = new Queue("http://127.0.0.1:8420", "mails");

async function enqueue(mail: Mail, delay = 0) {
  await mails.write(mail.customer, { json: mail, headers: { type: "mail" }, dedupe: mail.key, delay });
}

async function handle(message: Message) {
  let mail: Mail = message.json;
  if (message.headers["type"] === "digest") {
    const day = String(message.headers["millrace-tick"]).slice(0, 10);
    mail = { customer: "us", to: "team@shop.example", key: `digest-${day}` };
  }
  const answer = await fetch("https://mail.example/send", {
    method: "POST", body: JSON.stringify(mail), headers: { "Idempotency-Key": mail.key }, signal: message.lost,
  });
  if (answer.status === 404) throw new Dead("no such address");
  if (answer.status === 429) throw new Throttle(1000 * Number(answer.headers.get("Retry-After")), "429"); // of this customer
  if (!answer.ok) throw new Error(`the service says ${answer.status}`); // comes again after 1, 2, 4, ... seconds
}

await enqueue({ customer: "acme", to: "ann@a.example", key: "order-17" });
await mails.work(handle, { concurrency: 10 }); // until SIGTERM
