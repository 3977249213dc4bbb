"""Requests to the service, repeated until they are answered."""

from __future__ import annotations

import base64
import datetime
import http.client
import json
import os
import random
import threading
import time
import urllib.parse
from typing import Any, Dict, Optional, Tuple, Union

Duration = Union[float, datetime.timedelta, str]  # seconds, or as over HTTP: "10m"

LONGEST_DELAY = 5.0  # seconds between two tries, unless the service asks for more
ANSWER_TIME = 15.0  # seconds; the service takes at most 10 more than it was asked to wait


class MillraceError(Exception):
    """A request failed.

    code is for programs: full, tenant_full, forbidden, ... It is "unreachable" if there was no
    answer, and "" if a proxy answered. status is that of HTTP, or 0 without an answer. hint
    says what to do next. key is the Idempotency-Key: after a failure whose outcome is unknown,
    the same write with this key writes nothing twice, for 24 hours.
    """

    def __init__(self, status: int, code: str, detail: str, hint: str = "", key: str = "", wait: float = 0) -> None:
        super().__init__(" ".join(filter(None, [str(status or ""), code + ":", detail, hint])))
        self.status, self.code, self.detail, self.hint, self.key = status, code, detail, hint, key
        self.wait = wait

    @property
    def temporary(self) -> bool:
        """Whether a repeat may help soon. For 507, a full Redis, it may help after a while."""
        if self.code == "in_progress" or self.status == 408:
            return True
        if self.status == 429:
            return self.code == ""  # of a proxy
        return self.status < 300 or self.status >= 500 and self.status not in (501, 507)


class Service:
    """The service at a URL. Threads may share it."""

    def __init__(self, url: str, token: Optional[str]) -> None:
        self.url = urllib.parse.urlsplit(url)
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise ValueError(f"the URL of the service is like http://127.0.0.1:8420, not {url!r}")
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = "Bearer " + token
        self.local = threading.local()  # each thread of each process has a connection

    def post(self, path: str, document: Dict[str, Any], key: str = "", seconds: float = 30, wait: float = 0, full: bool = False) -> Tuple[Dict[str, Any], bool]:
        """Returns the answer to a request, and whether it was sent more than once.

        After a failure it is repeated for so many seconds, unless that would not help; with full
        also while Redis is full. wait is how long the request asks the service to wait. After a lost
        answer the request may have been applied; with a key it is applied once.
        """
        headers = dict(self.headers, **({"Idempotency-Key": key} if key else {}))
        data, end, delay, repeated = json.dumps(document).encode(), 0.0, 0.1, False
        while True:
            try:
                return self._send(path, data, headers, wait + ANSWER_TIME), repeated
            except MillraceError as failure:
                failure.key = key
                end = end or time.monotonic() + seconds
                pause = max(failure.wait, delay * random.uniform(0.5, 1.5))  # not all clients at once
                helps = failure.temporary or full and failure.status == 507
                if not helps or time.monotonic() + pause > end:
                    raise
            time.sleep(pause)
            delay, repeated = min(2 * delay, LONGEST_DELAY), True

    def _send(self, path: str, data: bytes, headers: Dict[str, str], timeout: float) -> Dict[str, Any]:
        connection = self._connection(timeout)
        try:
            connection.request("POST", self.url.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException) as failure:
            connection.close()  # the next request opens it again
            hint = "Check the URL, and that millrace serve runs there."
            raise MillraceError(0, "unreachable", f"no answer from {self.url.netloc}: {failure!r}", hint) from failure
        try:
            reply = json.loads(answer)
        except ValueError:
            reply = None
        if status < 300 and isinstance(reply, dict):
            return reply
        if not isinstance(reply, dict):  # a proxy has answered, with a page
            reply = {"detail": f"the answer is no JSON: {answer[:100]!r}"}
        after = response.headers.get("Retry-After", "")
        wait = min(float(after), 60) if after.isdecimal() else 0  # a proxy may send a date
        raise MillraceError(status, reply.get("code", ""), reply.get("detail", ""), reply.get("hint", ""), wait=wait)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        mine = self.local.__dict__
        if mine.get("process") != os.getpid():  # a child of fork has none
            kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
            mine.update(process=os.getpid(), connection=kind(str(self.url.hostname), self.url.port))
        connection: http.client.HTTPConnection = mine["connection"]
        connection.timeout = timeout
        if connection.sock:
            connection.sock.settimeout(timeout)
        return connection


def duration(value: Duration) -> str:
    """Returns a duration as requests have it."""
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else value
    return f"{round(seconds * 1000)}ms"


def encoded(value: Union[str, bytes]) -> Any:
    """Returns text, or bytes, as requests have them."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def decoded(value: Any) -> Union[str, bytes]:
    """Returns text as str, and what is not UTF-8 as bytes."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
