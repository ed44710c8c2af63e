"""What the page of executions shows: filters in its address, each of them a part of one `where`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, get_args
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from noetl.usecases.ports import ExecutionStatus

STATUSES: Final[tuple[str, ...]] = get_args(ExecutionStatus)
#: What people choose from for how far back to look, as `where` has it, and in words.
PERIODS: Final[Mapping[str, str]] = {
    "": "any time",
    "-1h": "the last hour",
    "-24h": "the last day",
    "-7d": "the last week",
    "-30d": "the last 30 days",
}
#: Says of called executions that they are not shown.
HIDDEN: Final = "hidden"
#: How people know each filter: the label of its field, and its chip.
LABELS: Final[Mapping[str, str]] = {
    "status": "Status",
    "path": "Playbook",
    "version": "Version",
    "since": "Started",
    "until": "Before",
    "key": "Key",
    "label": "Label",
    "input": "Input",
    "error": "Error",
    "fingerprint": "Fingerprint",
    "waiting": "Waits for",
    "principal": "Started by",
    "parent": "Called by",
    "called": "Called executions",
    "source": "Descends from",
    "where": "Expression",
}
#: Those that are always in sight.
_FIRST: Final = ("status", "path", "since", "error", "called")
#: What would mean something else in a pattern.
_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
#: `name=value`, or `name` alone.
_NAMED: Final = re.compile(r"([\w./-]+)\s*(?:=\s*(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filters:
    """What was typed, as text; empty where nothing was.

    `path` may have `*`; `label` and `input` are `name=value` or `name`; `error` and `waiting` are
    searched for; `called` is `hidden` where what others called is not shown; `where` is a filter as
    `noetl execution list --where` has it.
    """

    status: tuple[str, ...] = ()
    path: str = ""
    version: str = ""
    since: str = ""
    until: str = ""
    key: str = ""
    label: str = ""
    input: str = ""
    error: str = ""
    fingerprint: str = ""
    waiting: str = ""
    principal: str = ""
    parent: str = ""
    called: str = ""
    source: str = ""
    where: str = ""

    @classmethod
    def read(cls, sent: MultiDict[str, str]) -> Self:
        """As an address has them."""
        texts = {one.name: sent.get(one.name, "").strip() for one in fields(cls) if one.name != "status"}
        return cls(status=tuple(dict.fromkeys(filter(None, sent.getlist("status")))), **texts)

    def as_query(self, **more: str) -> str:
        """The address that shows the same, without `?`."""
        pairs = [("status", one) for one in self.status]
        pairs += [(name, text) for name, text in self._texts() if text]
        return urlencode([*pairs, *((name, text) for name, text in more.items() if text)])

    def without(self, name: str, value: str = "") -> Self:
        """The same without one of them."""
        if name == "status":
            return replace(self, status=tuple(one for one in self.status if one != value))
        nothing: dict[str, Any] = {name: ""}
        return replace(self, **nothing)

    def only(self, status: str) -> Self:
        """The same of one status."""
        return replace(self, status=(status,))

    def of_path(self, path: str) -> Self:
        return replace(self, path=path)

    def of_label(self, name: str, text: str) -> Self:
        return replace(self, label=f"{name}={text}")

    def with_span(self, since: str, until: str) -> Self:
        return replace(self, since=since, until=until)

    def label_of(self, name: str) -> str:
        """How people know the filter of that name."""
        return LABELS[name]

    def given(self) -> Iterator[tuple[str, str]]:
        """Name and text of each, one for each status."""
        yield from (("status", one) for one in self.status)
        yield from ((name, text) for name, text in self._texts() if text)

    @property
    def has_more(self) -> bool:
        """Whether there are some beside those that are always in sight."""
        return any(name not in _FIRST for name, _ in self.given())

    def _texts(self) -> Iterator[tuple[str, str]]:
        yield from ((one.name, getattr(self, one.name)) for one in fields(self) if one.name != "status")

    def as_where(self) -> str | None:
        """All of them as one filter; None where there is none. What cannot be used is found by who
        reads it."""
        called = ["parent is null"] if self.called == HIDDEN else []
        parts = [
            *self._plain(),
            *called,
            *self._named("label", self.label),
            *self._named("input", self.input),
        ]
        if self.where:
            parts.append(f"({self.where})" if parts else self.where)
        return " and ".join(parts) or None

    def _plain(self) -> Iterator[str]:
        if self.status:
            yield f"status in ({', '.join(map(_quote, self.status))})"
        if self.path:
            yield f"path {_match(self.path)}"
        if self.version:
            yield f"version = {self.version if self.version.isdecimal() else _quote(self.version)}"
        if self.since:
            yield f"created >= {_quote(self.since)}"
        if self.until:
            yield f"created < {_quote(self.until)}"
        for name in ("key", "fingerprint", "principal", "parent", "source"):
            if text := getattr(self, name):
                yield f"{name} = {_quote(text)}"
        for name in ("error", "waiting"):
            if text := getattr(self, name):
                yield f"{name} ~ {_quote(f'(?i){_escape(text)}')}"

    def _named(self, field: str, text: str) -> Iterator[str]:
        if not text:
            return
        found = _NAMED.fullmatch(text)
        name, value = found.groups() if found else (text, None)
        place = f'{field}."{name.replace(chr(34), chr(34) * 2)}"'
        yield f"{place} is not null" if value is None else f"{place} {_match(value)}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _match(text: str) -> str:
    """A comparison with a text in which `*` stands for any characters."""
    if "*" not in text:
        return f"= {_quote(text)}"
    return f"~ {_quote('^' + '.*'.join(map(_escape, text.split('*'))) + '$')}"
