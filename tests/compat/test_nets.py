"""Nets that older versions compiled and stored are read, and say what they said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from noetl.net.codec import SCHEMA, from_json, to_json

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("nets-*.json.gz"))
#: What later versions say besides, and what it is of a net that does not say it.
ADDED: Final = {
    "on_large": "fail",
    "process": "row",
    "effects": "external",
    "deadline": None,
    "deferred": [],
}


def as_schema_1(task: Any) -> Any:
    """`task`, as it is encoded today, in the words of nets without a number. What readers alone
    were told of a task that repeats (`again`) is not kept."""
    older = task.pop("older") or {}
    assert (task.pop("repeat"), task.pop("each_of")) == (None, "")
    task |= {"over": older.get("over"), "then": older.get("then", [])}
    rules = [*(task["rules"] or ()), *task["then"]]
    for one in [*task["set"], *(one for rule in rules for one in rule["then"]["set"])]:
        one["append"] = one["name"] in older.get("appended", ())
        one["merge"] = one["name"] in older.get("merged", ())
    return task


def net_as_schema_1(body: Any) -> Any:
    assert body.pop("schema") == SCHEMA
    for step in body["transitions"]:
        cursor = step["loop"] and step["loop"]["cursor"]
        for task in [*step["tasks"], *([cursor] if cursor else ())]:
            as_schema_1(task)
        for one in [*step["set"], *(one for arc in step["arcs"] for one in arc["set"])]:
            one |= {"append": False, "merge": False}
    for task in body["workbook"].values():
        as_schema_1(task)
    return body


def without_again(body: Any) -> Any:
    for step in body["transitions"]:
        cursor = step["loop"] and step["loop"].get("cursor")
        for task in [*step["tasks"], *([cursor] if cursor else ())]:
            task.pop("again", None)
    for task in body["workbook"].values():
        task.pop("again", None)
    return body


def lost(now: Any, then: Any, where: str = "") -> list[str]:
    """Where `now` is not what was stored, besides what was added since."""
    if isinstance(now, dict) and isinstance(then, dict):
        added = {key: now[key] for key in now.keys() - then.keys()}
        wrong = [
            f"{where}.{key}: {value!r}" for key, value in added.items() if (key, value) not in ADDED.items()
        ]
        gone = [f"{where}.{key}: gone" for key in then.keys() - now.keys()]
        both = now.keys() & then.keys()
        return wrong + gone + [fault for key in both for fault in lost(now[key], then[key], f"{where}.{key}")]
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        pairs = enumerate(zip(now, then, strict=True))
        return [fault for at, (one, other) in pairs for fault in lost(one, other, f"{where}[{at}]")]
    same = type(now) is type(then) and now == then
    return [] if same else [f"{where}: {now!r}, was {then!r}"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".")[0])
def test_a_net_is_decoded_and_encoded_without_loss(file: Path) -> None:
    nets = json.loads(gzip.decompress(file.read_bytes()))
    assert len(nets) > 400

    def said(body: Any) -> list[str]:
        return lost(net_as_schema_1(to_json(from_json(body))), without_again(body))

    wrong = {key: faults for key, body in nets.items() if (faults := said(body))}
    assert wrong == {}
