#!/usr/bin/env python3
"""A worker for a Millrace queue over HTTP, in one file, without packages.

    millrace serve --redis redis://127.0.0.1:6379
    python3 worker.py orders

Copy this file and replace handle(), or import it and call main(handle). Python 3.9 or newer.

A message is delivered at least once: if this process is killed, the message comes again
after the visibility timeout. So handle() must be idempotent.
"""

import argparse
import base64
import concurrent.futures
import http.client
import json
import os
import queue
import random
import signal
import sys
import threading
import time
import urllib.parse
import uuid


def handle(message, worker):
    """Handles one message. Returning acknowledges it.

    An exception returns the message, and it is delivered again after a delay. Retry has
    the delay; Dead makes it a dead letter. message.lost is set when the message belongs to
    another worker: stop then.
    """
    say(json.dumps({"id": message.id, "tenant": message.tenant, "attempt": message.attempt}))


def say(line):
    """Prints a line whole. print() writes its end apart, and another thread may come between."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Retry(Exception):
    """Deliver the message again after a delay in seconds."""

    def __init__(self, reason, delay):
        super().__init__(reason)
        self.delay = delay


class Dead(Exception):
    """Do not deliver the message again."""


class Problem(Exception):
    """The service refused a request. The code is for programs: stale, not_found, ...

    Repeated means that an earlier try failed, and may have been applied.
    """

    def __init__(self, status, document, repeated):
        super().__init__(f"{status} {document.get('code', '')}: {document.get('detail', '')} {document.get('hint', '')}")
        self.status, self.code, self.repeated = status, document.get("code", ""), repeated


class Client:
    """Requests to the service, repeated until they are answered. Threads may share it."""

    def __init__(self, url, token=""):
        self.url = urllib.parse.urlsplit(url)
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = "Bearer " + token
        self.local = threading.local()  # each thread has a connection

    def post(self, path, document, key=None, seconds=300, stop=None):
        """Sends a request, and returns the answer.

        A failure is repeated for so many seconds, unless stop is set. After a lost answer
        nobody knows whether the request was applied: with a key it is applied once, however
        often it is repeated. The service stores answers to keys for a day, those of receive
        as long as their messages are invisible. So requests that may be applied twice, such
        as an ack, have none.
        """
        headers = dict(self.headers, **({"Idempotency-Key": key} if key else {}))
        body, end, delay, repeated = json.dumps(document).encode(), time.monotonic() + seconds, 0.1, False
        while True:
            wait = 0.0
            try:
                status, header, answer = self._send(path, body, headers)
                reply = _document(answer)
                if status < 300 and reply is not None:
                    return reply
                problem = Problem(status, reply or {}, repeated)
                # 503: Redis is away. in_progress: the first try is still being answered.
                # Below 300 a proxy has answered, with a page.
                if 300 <= status < 500 and problem.code != "in_progress" or status in (501, 507):
                    raise problem
                wait = _seconds(header.get("Retry-After"))
            except (OSError, http.client.HTTPException) as failure:
                problem = failure
            wait = max(wait, delay * random.uniform(0.5, 1.5))  # not all workers at once
            if time.monotonic() + wait > end:
                raise problem
            if stop is None:
                time.sleep(wait)
            elif stop.wait(wait):
                raise problem
            delay, repeated = min(2 * delay, 10), True

    def _send(self, path, body, headers):
        connection = getattr(self.local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
            connection = self.local.connection = kind(self.url.hostname, self.url.port, timeout=90)
        try:
            connection.request("POST", self.url.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            raise


def _document(answer):
    """Returns a JSON object, or None for what is none."""
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else None


def _seconds(text):
    """Returns a Retry-After, at most 10 seconds. A date, which a proxy may send, is 0."""
    return min(int(text), 10) if text and text.isdecimal() else 0


def _text(value):
    """Returns text as str, and what is not UTF-8 as bytes."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value


class Message:
    """One delivery of a message."""

    def __init__(self, document):
        self.id, self.receipt, self.attempt = document["id"], document["receipt"], document["attempt"]
        self.tenant, self.body = _text(document["tenant"]), _text(document["body"])
        self.headers = {name: _text(value) for name, value in document["headers"].items()}
        self.lost = threading.Event()


class Worker:
    """Receives messages, handles so many at once, and settles them."""

    def __init__(self, client, name, handle, concurrency=4, visibility=30.0, block=10.0):
        self.client, self.handle, self.concurrency = client, handle, concurrency
        self.visibility, self.block = visibility, block  # seconds
        self.path = "/v1/queues/" + urllib.parse.quote(name, safe="")
        self.slots = threading.Semaphore(concurrency)
        self.lock, self.running = threading.Lock(), {}  # messages by receipt
        self.events = queue.SimpleQueue()  # a signal handler may put, and may not lock
        self.draining, self.drained = threading.Event(), threading.Event()

    def run(self):
        """Works until SIGTERM or SIGINT, then finishes what is running. A second signal ends it at once."""
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            signal.signal(number, lambda number, _: self.events.put(None))
        receiving = threading.Thread(target=self._receive, daemon=True)
        extending = threading.Thread(target=self._extend, daemon=True)
        receiving.start()
        extending.start()
        failure = self.events.get()
        self.draining.set()
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
        receiving.join()  # its long poll ends, and what it brings is handled
        self.drained.set()
        extending.join()
        if failure is not None:
            raise failure

    def _receive(self):
        with concurrent.futures.ThreadPoolExecutor(self.concurrency) as pool:  # waits for handlers at the end
            try:
                while not self.draining.is_set():
                    self._receive_once(pool)
            except Exception as failure:  # such as 401: a repeat would not help
                self.events.put(failure)

    def _receive_once(self, pool):
        self.slots.acquire()
        free = 1
        while self.slots.acquire(blocking=False):
            free += 1
        taken = []
        try:
            if not self.draining.is_set():
                taken = self._take(free)
        finally:
            for _ in range(free - len(taken)):
                self.slots.release()
        for document in taken:
            message = Message(document)
            with self.lock:
                self.running[message.receipt] = message
            pool.submit(self._work, message)

    def _take(self, most):
        request = {"max": most, "block": _duration(self.block), "visibility": _duration(self.visibility)}
        try:
            # A later repeat would bring receipts that are worth nothing.
            answer = self.client.post(self.path + "/receive", request, str(uuid.uuid4()), self.visibility, self.draining)
            return answer["messages"]
        except (OSError, http.client.HTTPException, Problem) as failure:
            if isinstance(failure, Problem) and 300 <= failure.status < 500:
                raise
            if not self.draining.is_set():
                print(f"cannot receive: {failure}", file=sys.stderr)
            return []

    def _work(self, message):
        try:
            try:
                self.handle(message, self)
                verb, document = "ack", {}
            except Dead as failure:
                verb, document = "nack", {"dead": True, "reason": _reason(failure)}
            except Retry as failure:
                verb, document = "nack", {"delay": _duration(failure.delay), "reason": _reason(failure)}
            except Exception as failure:
                verb, document = "nack", {"delay": _duration(min(2**message.attempt, 300)), "reason": _reason(failure)}
            if not message.lost.is_set():
                self.client.post(f"{self.path}/{verb}", dict(document, receipts=[message.receipt]))
        except Exception as failure:  # it comes again; stale means that it already has, or that an earlier try settled it
            if not (isinstance(failure, Problem) and failure.code == "stale" and failure.repeated):
                print(f"message {message.id} is not settled: {failure}", file=sys.stderr)
        finally:
            with self.lock:
                self.running.pop(message.receipt, None)
            self.slots.release()

    def _extend(self):
        """Keeps running messages invisible to others."""
        while not self.drained.wait(self.visibility / 3):
            with self.lock:
                receipts = list(self.running)
            for start in range(0, len(receipts), 1000):
                self._extend_some(receipts[start : start + 1000])

    def _extend_some(self, receipts):
        request = {"receipts": receipts, "visibility": _duration(self.visibility)}
        try:
            # Without an answer in time, the next round asks again.
            stale = self.client.post(self.path + "/extend", request, seconds=self.visibility / 3)["stale_receipts"]
        except Problem as problem:
            if problem.code != "stale":
                print(f"cannot extend: {problem}", file=sys.stderr)
                return
            stale = receipts  # all of them
        except (OSError, http.client.HTTPException) as failure:
            print(f"cannot extend: {failure}", file=sys.stderr)
            return
        with self.lock:
            for message in filter(None, map(self.running.get, stale)):
                message.lost.set()


def _duration(seconds):
    return f"{round(seconds * 1000)}ms"


def _reason(failure):
    return f"{type(failure).__name__}: {failure}"[:500]


def main(handle=handle):
    parser = argparse.ArgumentParser(description="Handles the messages of a Millrace queue.")
    parser.add_argument("queue", help="the queue's name")
    parser.add_argument("--url", default=os.environ.get("MILLRACE_URL", "http://127.0.0.1:8420"), help="the service; MILLRACE_URL")
    parser.add_argument("--concurrency", type=int, default=4, help="how many messages to handle at once")
    parser.add_argument("--visibility", type=float, default=30, help="seconds after which a message of a killed worker comes again")
    parser.add_argument("--block", type=float, default=10, help="seconds that a request waits for a message; draining takes as long")
    args = parser.parse_args()
    client = Client(args.url, os.environ.get("MILLRACE_TOKEN", ""))
    Worker(client, args.queue, handle, args.concurrency, args.visibility, args.block).run()


if __name__ == "__main__":
    main()
