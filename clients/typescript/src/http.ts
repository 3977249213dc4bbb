// Requests to the service, repeated until they are answered.

/** Milliseconds, or as over HTTP: "10m". */
export type Duration = number | string;

const longestDelay = 5_000; // between two tries, unless the service asks for more
const answerTime = 15_000; // the service takes at most 10 s more than it was asked to wait

/**
 * A request failed. code is for programs: full, tenant_full, forbidden, ... It is "unreachable" if
 * there was no answer, and "" if a proxy answered. status is that of HTTP, or 0 without an answer.
 * hint says what to do next. key is the Idempotency-Key: after a failure whose outcome is
 * unknown, the same write with this key writes nothing twice, for 24 hours.
 */
export class MillraceError extends Error {
  key = "";

  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly hint = "",
    readonly wait = 0,
  ) {
    super([status || "", code + ":", detail, hint].filter(Boolean).join(" "));
    this.name = "MillraceError";
  }

  /** Whether a repeat may help soon. For 507, a full Redis, it may help after a while. */
  get temporary(): boolean {
    if (this.code === "in_progress" || this.status === 408) return true;
    if (this.status === 429) return this.code === ""; // of a proxy
    return this.status < 300 || (this.status >= 500 && this.status !== 501 && this.status !== 507);
  }
}

export type Json = Record<string, any>;

/** The service at a URL. */
export class Service {
  private readonly base: string;
  private readonly headers: Record<string, string> = { "Content-Type": "application/json" };

  constructor(url: string, token?: string) {
    if (!/^https?:\/\/./.test(url)) {
      throw new TypeError(`the URL of the service is like http://127.0.0.1:8420, not ${url}`);
    }
    this.base = url.replace(/\/+$/, "");
    if (token) this.headers["Authorization"] = "Bearer " + token;
  }

  /**
   * Returns the answer to a request, and whether it was sent more than once. After a failure it is
   * repeated for so long, unless that would not help; with full also while Redis is full. wait is how
   * long the request asks the service to wait. After a lost answer the request may have been
   * applied; with a key it is applied once.
   */
  async post(
    path: string,
    document: Json,
    { key = "", repeat = 30_000, wait = 0, full = false } = {},
  ): Promise<{ answer: Json; repeated: boolean }> {
    const headers = key ? { ...this.headers, "Idempotency-Key": key } : this.headers;
    const body = JSON.stringify(document);
    let end = 0;
    for (let delay = 100, repeated = false; ; delay = Math.min(2 * delay, longestDelay), repeated = true) {
      try {
        return { answer: await this.send(path, body, headers, wait + answerTime), repeated };
      } catch (failure) {
        if (!(failure instanceof MillraceError)) throw failure;
        failure.key = key;
        end ||= performance.now() + repeat;
        const pause = Math.max(failure.wait, delay * (0.5 + Math.random())); // not all clients at once
        const helps = failure.temporary || (full && failure.status === 507);
        if (!helps || performance.now() + pause > end) throw failure;
        await sleep(pause);
      }
    }
  }

  private async send(path: string, body: string, headers: Record<string, string>, timeout: number): Promise<Json> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(new Error("timeout")), timeout);
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.base + path, { method: "POST", body, headers, redirect: "manual", signal: abort.signal });
      text = await response.text();
    } catch (failure) {
      const cause = (failure as Error).cause ?? failure;
      throw new MillraceError(0, "unreachable", `no answer from ${this.base}: ${cause}`, "Check the URL, and that millrace serve runs there.");
    } finally {
      clearTimeout(timer);
    }
    let reply: any;
    try {
      reply = JSON.parse(text);
    } catch {
      reply = null;
    }
    const isObject = typeof reply === "object" && reply !== null;
    if (response.ok && isObject) return reply;
    if (!isObject) reply = { detail: `the answer is no JSON: ${text.slice(0, 100)}` }; // a proxy has answered, with a page
    const after = response.headers.get("Retry-After") ?? "";
    const wait = /^\d+$/.test(after) ? Math.min(Number(after), 60) * 1000 : 0; // a proxy may send a date
    throw new MillraceError(response.status, reply.code ?? "", reply.detail ?? "", reply.hint ?? "", wait);
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Returns a new key. */
export function newKey(): string {
  return globalThis.crypto?.randomUUID?.() ?? Array.from({ length: 4 }, () => Math.random().toString(36).slice(2, 12)).join("-");
}

/** Returns a duration as requests have it. */
export function duration(value: Duration): string {
  return typeof value === "string" ? value : `${Math.round(value)}ms`;
}

/** Returns text, or bytes, as requests have them. */
export function encoded(value: string | Uint8Array): unknown {
  if (typeof value === "string") return value;
  return { base64: btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join("")) };
}

/** Returns text as a string, and what is not UTF-8 as bytes. */
export function decoded(value: any): string | Uint8Array {
  return typeof value === "string" ? value : Uint8Array.from(atob(value.base64), (char) => char.charCodeAt(0));
}
