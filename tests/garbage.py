"""Everything that may stand on a broker and is none of our messages, and why it is refused."""

from __future__ import annotations

import base64
import json
import os
import pickle
import uuid
from pathlib import Path
from typing import Any


def args(*values: object) -> bytes:
    """The body of a Celery message with these arguments."""
    return json.dumps([list(values), {}, {}]).encode()


def envelope(task: object, content: bytes, queue: str = "python", **changes: Any) -> bytes:
    """A message as kombu writes it. `changes` are made to the part that is named: `headers={"id":
    None}` takes a header away; a part that is no mapping replaces it."""
    number = str(uuid.uuid4())
    parts: dict[str, Any] = {
        "body": base64.b64encode(content).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": task,
            "id": number,
            "root_id": number,
            "argsrepr": "",
            "retries": 0,
        },
        "properties": {
            "correlation_id": number,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": number,
        },
    }
    for name, change in changes.items():
        part = name.replace("_", "-") if name.startswith("content") else name
        if isinstance(change, dict):
            parts[part] = {key: one for key, one in {**parts[part], **change}.items() if one is not None}
        else:
            parts[part] = change
    return json.dumps(parts).encode()


class Surprise:
    """Unpickling it would leave a directory behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def no_messages(queue: str) -> dict[str, tuple[bytes, str]]:
    """What kombu itself could not read: name -> (bytes, part of the reason)."""
    whole = envelope("noetl.step", args("1/start#1/-/1"), queue)
    return {
        "bytes that are no text": (b"\xff\xfe garbage", "not JSON"),
        "what a terminal would obey": (b"\x1b[2J\x07\x00 evil \r\n", "not JSON"),
        "nothing": (b"", "nothing at all"),
        "half a message": (whole[: len(whole) // 2], "not JSON"),
        "too many brackets": (b"[" * 100_000, "not JSON: RecursionError"),
        "too much": (b'"' + b"x" * 1_000_000 + b'"', "more than 1000000 bytes"),
        "a number": (b"42", "a JSON int"),
        "a list": (b"[]", "a JSON list"),
        "something else in JSON": (b'{"hello": "world"}', "no body and no headers and no properties"),
        "no delivery tag": (envelope("noetl.step", b"", queue, properties={"delivery_tag": None}), "delivery_tag"),
        "a tag that is a list": (envelope("noetl.step", b"", queue, properties={"delivery_tag": []}), "delivery_tag"),
        "no way back": (envelope("noetl.step", b"", queue, properties={"delivery_info": {}}), "delivery_info"),
        "headers that nest": (envelope("noetl.step", b"", queue, headers={"x": _nested(400)}), "nest too deeply"),
        "half a character": (envelope("noetl.step", b"", queue, headers={"id": "\ud800"}), "not Unicode"),
        "a content type that is a list": (envelope("noetl.step", b"", queue, content_type=[]), "content-type"),
        "a body that is no base64": (envelope("noetl.step", b"", queue, body="abc"), "not base64"),
        "a body in an unknown code": (
            envelope("noetl.step", b"", queue, properties={"body_encoding": "rot13"}),
            "unknown way: 'rot13'",
        ),
    }  # fmt: skip


def forged_messages(queue: str, trap: Path) -> dict[str, tuple[bytes, str]]:
    """Messages of kombu that are none of Celery's, or no order to a task of NoETL: name -> (bytes,
    part of the reason). `trap` appears where a pickle is opened."""

    def step(body: bytes, **changes: Any) -> bytes:
        return envelope("noetl.step", body, queue, **changes)

    good = args("1/start#1/-/1")
    first = json.dumps({"task": "noetl.step", "id": "1", "args": ["1/start#1/-/1"], "kwargs": {}}).encode()
    opened = pickle.dumps(((Surprise(trap),), {}, {}))
    return {
        "pickle": (step(opened, content_type="application/x-python-serialize", content_encoding="binary"), "untrusted content of type pickle"),
        "YAML": (step(b"!!python/object/apply:os.getpid []", content_type="application/x-yaml"), "untrusted content of type yaml"),
        "a body that is no JSON": (step(b"{'"), "the body cannot be read"),
        "a body that nests": (step(b"[" * 100_000), "the body cannot be read"),
        "a body that was not compressed": (step(good, headers={"compression": "application/x-gzip"}), "decompressed"),
        "a compression that is a list": (step(good, headers={"compression": ["zlib"]}), "decompressed"),
        "an unknown task": (envelope("os.system", args("true"), queue), "not a task of NoETL: 'os.system'"),
        "a task of Celery's own": (envelope("celery.map", args({}, []), queue), "not a task of NoETL: "
                                                                                "'celery.map'"),
        "a task that is a list": (envelope(["noetl.step"], good, queue), "not a task of NoETL: "
                                                                         "['noetl.step']"),
        "no task": (step(good, headers={"task": None}), "it names no task"),
        "the first version of the protocol": (step(first, headers={"task": None}), "version of Celery's "
                                                                                   "protocol"),
        "no id": (step(good, headers={"id": None}), "it has no id"),
        "retries that are text": (step(good, headers={"retries": "often"}), "wrong type: retries"),
        "a limit that is none": (step(good, headers={"timelimit": ["soon", None]}), "timelimit"),
        "a date that is none": (step(good, headers={"eta": "tomorrow"}), "it bears a date"),
        "a date far away": (step(good, headers={"expires": "9999-01-01T00:00:00Z"}), "it bears a date"),
        "a body of two parts": (step(b"[[], {}]"), "protocol 2"),
        "a body that is a number": (step(b"5"), "protocol 2"),
        "arguments that are a number": (step(b"[5, {}, {}]"), "protocol 2"),
        "arguments by name": (step(b'[["1/a#1/-/1"], {"x": 1}, {}]'), "arguments by name"),
        "a chord that is text": (step(b'[["1/a#1/-/1"], {}, {"chord": "x"}]'), "wrong type: chord"),
        "no command id": (step(args()), "not the arguments of the task noetl.step"),
        "too many arguments": (envelope("noetl.lane", args(1, 2, 3), queue), "not the arguments of the "
                                                                             "task noetl.lane"),
        "an id that is none": (envelope("noetl.iteration", args({"a": [1]}), queue), "not the arguments"),
        "an id that no text can hold": (step(args("1/a\0b#1/-/1")), "not the arguments of the task "
                                                                    "noetl.step"),
    }  # fmt: skip


def empty_handed(queue: str) -> list[bytes]:
    """Messages of ours about what does not exist: answered by doing nothing."""
    return [
        envelope("noetl.step", args("1/start#1/-/1"), queue),
        # JSON is JSON, whatever it says of its alphabet.
        envelope("noetl.step", args("1/start#1/-/1"), queue, content_encoding="klingon"),
        # A wake names nobody. Earlier versions did.
        envelope("noetl.turn", args("99"), queue),
        envelope("noetl.turn", args("../../etc/passwd", 7, {}), queue),
    ]
