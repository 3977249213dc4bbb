"""A worker: rounds that settle messages and take more."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import os
import queue
import random
import signal
import socket
import threading
import time
import uuid
from typing import Any, Callable, Dict, List, Optional

from ._http import Duration, MillraceError, Service, decoded, duration

log = logging.getLogger("millrace")

GRACE = 0.05  # seconds after which results do not wait for the round that is waiting for messages
LONGEST_BEAT = 20.0  # seconds between signs of life; the service forgets a worker after 60


class Message:
    """One delivery of a message.

    body is str, or bytes if it is not UTF-8; json is the value of a body that is JSON. attempt
    counts deliveries, from 1 on. lost is set when the message belongs to another worker, or was
    cancelled: the handler should stop, and its outcome does not count.
    """

    def __init__(self, document: Dict[str, Any]) -> None:
        self.id: str = document["id"]
        self.receipt: str = document["receipt"]
        self.tenant = decoded(document["tenant"])
        self.body = decoded(document["body"])
        self.headers = {name: decoded(value) for name, value in document["headers"].items()}
        self.attempt: int = document["attempt"]
        self.priority: int = document.get("priority", 0)
        self.cost: int = document.get("cost", 1)
        self.batch: Optional[str] = document.get("batch")
        self.pickup_delay_ms: int = document["pickup_delay_ms"]
        self.lost = threading.Event()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Retry(Exception):
    """Raised by a handler: the message comes again after the delay, by default after longer each time."""

    def __init__(self, reason: object = "", delay: Optional[Duration] = None) -> None:
        super().__init__(reason)
        if isinstance(delay, (int, float)) and delay < 0:
            raise ValueError(f"the delay of a retry is negative: {delay}")
        self.delay = None if delay is None else duration(delay)


class Dead(Exception):
    """Raised by a handler: the message is dead, and does not come again unless it is redriven."""


class Throttle(Exception):
    """Raised by a handler: messages of this tenant wait for the delay, as after a 429. It is no attempt."""

    def __init__(self, delay: Duration, reason: object = "") -> None:
        super().__init__(reason)
        if isinstance(delay, (int, float)) and delay < 0.001:
            raise ValueError(f"a tenant waits for a millisecond at least, not {delay} seconds")
        self.delay = duration(delay)


class Worker:
    """One call of Queue.work.

    Three threads make requests. One takes messages, and settles with the same requests. While
    its request waits for messages, the second one settles. The third one keeps messages
    that handlers have for long.
    """

    def __init__(
        self, service: Service, path: str, handler: Callable[[Message], Any], concurrency: int, visibility: float, block: float, name: Optional[str]
    ) -> None:
        if not 1 <= concurrency <= 1000:
            raise ValueError(f"concurrency is 1 to 1000, not {concurrency}")
        self.service, self.path, self.handler, self.concurrency = service, path, handler, concurrency
        self.visibility, self.block = visibility, block
        self.name = name or f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self.interval = min(visibility / 3, LONGEST_BEAT)
        self.pool = concurrent.futures.ThreadPoolExecutor(concurrency, "millrace")
        self.events: queue.SimpleQueue[None] = queue.SimpleQueue()  # unlike an Event, safe in a signal handler

        self.changed = threading.Condition()  # guards the following
        self.running: Dict[str, Message] = {}  # by receipt
        self.ended: Dict[str, List[Any]] = {}  # results that no request has: {"ack": [RECEIPT, ...], ...}
        self.waiting: Optional[float] = None  # since when a request waits for messages
        self.last_round = time.monotonic()
        self.draining = False
        self.left = False  # the service knows that it ends
        self.give_up: Optional[float] = None  # when the last results are no longer worth a repeat
        self.failure: Optional[Exception] = None

        self.beat_now = threading.Event()
        self.over = False

    def run(self, stop: Optional[threading.Event]) -> None:
        before: Dict[int, Any] = {}
        if stop is None and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, self._on_signal)
        taking, settling, beating = [threading.Thread(target=f, daemon=True) for f in (self._take, self._settle, self._beat)]
        for thread in (taking, settling, beating):
            thread.start()
        while True:
            try:
                self.events.get(timeout=0.1 if stop else None)
                break
            except queue.Empty:
                if stop and stop.is_set():
                    break
        with self.changed:
            self.draining = True
            self.changed.notify_all()
        taking.join()  # handlers get what its last request brings
        self.pool.shutdown()
        with self.changed:
            self.give_up = time.monotonic() + self.visibility
            self.changed.notify_all()
        settling.join()
        self.over = True
        self.beat_now.set()
        beating.join()
        for stopping, handler in before.items():
            signal.signal(stopping, handler)
        if self.failure:
            raise self.failure

    def _on_signal(self, *_: Any) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process
        self.events.put(None)

    def _fail(self, failure: Exception) -> None:
        with self.changed:
            self.failure = self.failure or failure
        self.events.put(None)

    def _take(self) -> None:
        """Takes messages while handlers are free."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.draining or len(self.running) < self.concurrency)
                if self.draining:
                    return
                free, ended = self.concurrency - len(self.running), self._take_ended()
                self.waiting = began = time.monotonic()
            messages: List[Message] = []
            try:
                messages = self._round(free, ended)
            except Exception as failure:
                self._fail(failure)
                return
            finally:
                with self.changed:
                    self.waiting = None
                    self.left = False  # the round may have come after that
                    self.running.update((m.receipt, m) for m in messages)
                    self.changed.notify_all()
            for message in messages:
                self.pool.submit(self._handle, message)
            if not messages and time.monotonic() - began < self.block / 2:
                time.sleep(random.uniform(0.1, 0.3))  # the service is about to end, and does not wait

    def _settle(self) -> None:
        """Settles while no other round will do it soon."""
        while True:
            with self.changed:
                leaves = self.draining and (not self.left or bool(self.ended))
                if not leaves and self.give_up:
                    return
                soon: Optional[float] = None  # the next round takes them
                if leaves:
                    soon = 0
                elif self.ended and self.waiting:
                    soon = self.waiting + GRACE - time.monotonic()
                if soon is None or soon > 0:
                    self.changed.wait(soon)
                    continue
                ended = self._take_ended()
                self.left = leaves
            try:
                self._round(0, ended, leaves)
            except Exception as failure:
                self._fail(failure)

    def _take_ended(self) -> Dict[str, List[Any]]:
        ended, self.ended = self.ended, {}
        return ended

    def _round(self, most: int, ended: Dict[str, List[Any]], leaves: bool = False) -> List[Message]:
        """Settles, and takes messages, or ends the round that waits. It is repeated until it is answered."""
        request = dict(ended, worker=self.name, concurrency=self.concurrency, max=most, visibility=duration(self.visibility))
        wait = self.block if most else 0
        request["block"] = duration(wait)
        if leaves:
            request["leave"] = True
        while True:
            try:
                # The answer to a key is that of the first try for so long; the receipts of an older one are stale.
                answer, repeated = self.service.post(self.path + "/work", request, str(uuid.uuid4()), 0.8 * self.visibility, wait, full=True)
                break
            except MillraceError as failure:
                if not (failure.temporary or failure.status == 507):
                    raise
                log.warning("a round failed and is repeated: %s", failure)
                with self.changed:
                    if self.give_up and time.monotonic() > self.give_up:
                        raise
                    if most and self.draining:  # the other thread settles
                        for how, results in ended.items():
                            self.ended.setdefault(how, []).extend(results)
                        return []
        self.last_round = time.monotonic()
        if answer["stale"] and not repeated:
            log.warning("%d messages were handled too late, or cancelled: others may handle them again", len(answer["stale"]))
        if repeated and answer["messages"]:
            self.beat_now.set()  # they may have been taken a while ago
        return [Message(m) for m in answer["messages"]]

    def _handle(self, message: Message) -> None:
        how = "ack"
        result: Any = message.receipt
        try:
            self.handler(message)
        except BaseException as failure:
            how, result = "nack", {"receipt": message.receipt, "reason": _reason(failure)}
            if isinstance(failure, Dead):
                how = "dead"
            elif isinstance(failure, Throttle):
                how, result["delay"] = "throttle", failure.delay
            elif not isinstance(failure, Retry):
                log.exception("the handler failed with message %s, attempt %d", message.id, message.attempt)
            elif failure.delay is not None:
                result["delay"] = failure.delay
        with self.changed:
            del self.running[message.receipt]
            if not message.lost.is_set():
                self.ended.setdefault(how, []).append(result)
            self.changed.notify_all()

    def _beat(self) -> None:
        """Keeps messages while handlers have them, and this worker known while it takes none, until it ends."""
        while not self.over:
            self.beat_now.wait(self.interval)
            self.beat_now.clear()
            with self.changed:
                receipts = list(self.running)
            if not receipts:
                continue
            try:
                self._extend(receipts)
                if time.monotonic() - self.last_round > self.interval and not self.draining:
                    self._round(0, {})
            except MillraceError as failure:
                log.warning("messages were not extended: %s", failure)

    def _extend(self, receipts: List[str]) -> None:
        request = {"receipts": receipts, "visibility": duration(self.visibility)}
        try:
            stale = self.service.post(self.path + "/extend", request, seconds=self.interval)[0]["stale_receipts"]
        except MillraceError as failure:
            if failure.code != "stale":
                raise
            stale = receipts  # all of them
        with self.changed:
            for message in filter(None, map(self.running.get, stale)):
                message.lost.set()


def _reason(failure: BaseException) -> str:
    known = isinstance(failure, (Retry, Dead, Throttle))
    text = str(failure) if known else f"{type(failure).__name__}: {failure}"
    return text.encode("utf-8", "replace").decode()[:500]
