"""The handler of worker_test.go: the body says what happens, and a line on stdin ends a hold."""

import sys

import worker


def handle(message, _):
    worker.say(f"start {message.body} {message.attempt}")
    if message.body == "hold":
        sys.stdin.readline()
    if message.body == "dead":
        raise worker.Dead("no such address")
    if message.attempt == 1 and message.body == "later":
        raise worker.Retry("not yet", delay=0.01)
    if message.attempt == 1 and message.body == "fails":
        raise ValueError("an accident")


worker.main(handle)
