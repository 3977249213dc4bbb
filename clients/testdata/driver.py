"""A worker and a writer for clients_test.go. The body of a message says what its handler does."""

import collections
import json
import logging
import sys
import threading

import millrace

logging.basicConfig()
lock = threading.Lock()
gates = collections.defaultdict(threading.Event)  # opened by a line on stdin
seen = collections.Counter()


def say(*words):
    with lock:
        print(*words, flush=True)


def handle(message):
    say("start", message.body, message.attempt)
    if message.batch or "millrace-batch" in message.headers:
        say("of", message.body, message.batch or message.headers["millrace-batch"], message.headers.get("millrace-batch-handled", "-"))
    with lock:
        seen[message.body] += 1
        first = seen[message.body] == 1
    kind = message.body.rstrip("0123456789")
    if kind == "hold":
        while not gates[message.body].wait(0.02):
            if message.lost.is_set():
                return say("lost", message.body)
    if kind == "dead":
        raise millrace.Dead("no such address")
    if first and kind == "later":
        raise millrace.Retry("not yet", delay=0.01)
    if first and kind == "fails":
        raise ValueError("an accident \ud800")
    if first and kind == "throttle":
        raise millrace.Throttle(0.05, "429")
    say("end", message.body)


def write(queue, n):
    """Writes n messages one by one, and n in batches, whatever happens."""
    singles = [lambda key, i=i: [queue.write(f"t{i % 3}", f"m{i}", key=key)] for i in range(n)]
    drafts = [{"tenant": f"t{i % 3}", "json": {"m": i}, "delay": 0.001} for i in range(n)]
    batches = [lambda key, i=i: queue.write_batch(drafts[i : i + 5], key=key) for i in range(0, n, 5)]
    for call in singles + batches:
        key = None
        while True:
            try:
                for number in call(key):
                    say("wrote", number)
                break
            except millrace.MillraceError as failure:
                key = failure.key
                say("error", failure.code)
                if failure.code == "full":
                    gates["full"].wait()


def count(queue):
    """Writes two messages of a batch."""
    batch = queue.create_batch("t0", "all", total=2)
    queue.write("t1", "m1", batch=batch)
    queue.write_batch([{"tenant": "t2", "body": "m2", "batch": batch}])
    say("batch", batch)


def main():
    options = json.loads(sys.argv[1])
    queue = millrace.Queue(options.pop("url"), "orders", token=options.pop("token", None), timeout=options.pop("timeout", 30))

    def listen():
        for line in sys.stdin:
            gates[line.strip()].set()

    threading.Thread(target=listen, daemon=True).start()
    writes, counts = options.pop("write", 0), options.pop("batch", False)
    try:
        if writes:
            write(queue, writes)
        elif counts:
            count(queue)
        else:
            queue.work(handle, **options)
        say("done")
    except millrace.MillraceError as failure:
        say("error", failure.code, "hint:", failure.hint)


main()
