"""A queue."""

from __future__ import annotations

import threading
import urllib.parse
import uuid
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, TypedDict, Union

from ._http import Duration, Service, duration, encoded
from ._worker import Message, Worker


class Draft(TypedDict, total=False):
    """A message to write. Only the tenant is required."""

    tenant: Union[str, bytes]
    body: Union[str, bytes]
    json: Any  # the body as a JSON value
    headers: Mapping[str, str]
    priority: int  # among the messages of the tenant, -4 to 4
    cost: int  # such as tokens of a model
    delay: Duration  # before the first delivery
    deadline: Duration  # after which it expires
    dedupe: str  # the tenant writes once under it in 5 minutes
    source: str  # numbers its messages
    position: int  # the number
    batch: str  # that counts it


class Queue:
    """A queue of the service at a URL. Threads may share it.

    The token is one of those that the service was given; see docs/SECURITY.md. Requests are
    repeated for timeout seconds while the service or its Redis is away; work() has no such limit.
    """

    def __init__(self, url: str, name: str, *, token: Optional[str] = None, timeout: float = 30) -> None:
        self.name, self.timeout = name, timeout
        self._service = Service(url, token)
        self._path = "/v1/queues/" + urllib.parse.quote(name, safe="")

    def write(
        self,
        tenant: Union[str, bytes],
        body: Union[str, bytes, None] = None,
        *,
        json: Any = ...,
        headers: Optional[Mapping[str, str]] = None,
        priority: Optional[int] = None,
        cost: Optional[int] = None,
        delay: Optional[Duration] = None,
        deadline: Optional[Duration] = None,
        dedupe: Optional[str] = None,
        source: Optional[str] = None,
        position: Optional[int] = None,
        batch: Optional[str] = None,
        key: Optional[str] = None,
    ) -> str:
        """Writes a message once, however often the request is repeated, and returns its id.

        The fields are those of Draft. Calls with the same key, such as "welcome-" + message.id
        in a handler that may run twice, write one message in 24 hours; else each call writes
        one. The id is "" if the position was written before. Raises MillraceError, such as
        tenant_full for a tenant with as many messages as it may have, or full.
        """
        draft: Dict[str, Any] = {
            "tenant": tenant, "body": body, "headers": headers, "priority": priority, "cost": cost, "delay": delay,
            "deadline": deadline, "dedupe": dedupe, "source": source, "position": position, "batch": batch,
        }  # fmt: skip
        if json is not ...:
            draft["json"] = json
        return str(self._post("/messages", _document(draft), key)["id"])

    def create_batch(
        self,
        tenant: Union[str, bytes],
        body: Union[str, bytes, None] = None,
        *,
        total: int = 0,
        json: Any = ...,
        headers: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
    ) -> str:
        """Creates a batch of so many messages, or of any number until it is closed, and returns its id.

        When all messages that were written with the id have ended, the queue writes the message that
        is given here, with the counts in its headers. Calls with the same key create one batch.
        """
        done: Dict[str, Any] = {"tenant": tenant, "body": body, "headers": headers, "total": total}
        if json is not ...:
            done["json"] = json
        return str(self._post("/batches", _document(done), key)["id"])

    def write_batch(self, messages: Iterable[Draft], *, key: Optional[str] = None) -> List[str]:
        """Writes up to 1,000 messages once, all or none, and returns their ids.

        A message that the queue refuses, such as tenant_full, stops no other; after such a
        MillraceError the same call with its key writes only the refused ones.
        """
        answer = self._post("/messages/batch", {"messages": [_document(m) for m in messages]}, key)
        return [m["id"] for m in answer["messages"]]

    def work(
        self,
        handler: Callable[[Message], Any],
        *,
        concurrency: int = 10,
        visibility: float = 30,
        block: float = 5,
        worker: Optional[str] = None,
        stop: Optional[threading.Event] = None,
    ) -> None:
        """Calls the handler for each message, in threads, until SIGTERM or SIGINT.

        The handler returns: the message is acknowledged. It raises: the message comes again
        after a second, two, four, ...; see Retry, Dead and Throttle. It may run for longer than
        visibility, the seconds after which the messages of a killed worker come again. Since
        they do, it must be idempotent.

        At a signal, work takes no more messages, lets handlers finish, settles all, and returns;
        a second signal ends the process. With stop, an event, it handles no signals. A request
        waits for messages for up to block seconds.

        It outlasts restarts of the service and of Redis. It raises a MillraceError that a repeat
        would not help, such as forbidden, after the handlers have finished. worker is a name
        that no other worker has; it defaults to the host, the process and a random text.
        """
        Worker(self._service, self._path, handler, concurrency, visibility, block, worker).run(stop)

    def _post(self, path: str, document: Dict[str, Any], key: Optional[str]) -> Dict[str, Any]:
        return self._service.post(self._path + path, document, key or str(uuid.uuid4()), self.timeout)[0]


def _document(draft: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns a draft as requests have it."""
    document = {name: value for name, value in draft.items() if value is not None or name == "json"}
    for name in ("delay", "deadline"):
        if name in document:
            document[name] = duration(document[name])
    for name in ("tenant", "body"):
        if name in document:
            document[name] = encoded(document[name])
    return document
