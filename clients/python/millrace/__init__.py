"""Distributes work over Millrace: https://github.com/millrace/millrace

    import millrace

    orders = millrace.Queue("http://127.0.0.1:8420", "orders")
    orders.write("acme", json={"order": 17})

    def handle(message):
        print(f"{message.tenant} {message.json['order']}")

    orders.work(handle, concurrency=8)

Fields have the names that they have over HTTP: docs/HTTP.md.
"""

from ._http import MillraceError
from ._queue import Draft, Queue
from ._worker import Dead, Message, Retry, Throttle

__all__ = ["Dead", "Draft", "Message", "MillraceError", "Queue", "Retry", "Throttle"]
__version__ = "0.1.0"
