"""`retry` of the classic dialect: after errors it is a policy, after successes a `repeat`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

from noetl.dsl.dialects.classic.sinks import SinkTasks
from noetl.dsl.dialects.parts import SUCCEEDED, Guards, Located, NewNames
from noetl.dsl.problems import Code, quote_value
from noetl.dsl.read.origins import Rewritten, Tree, plain
from noetl.dsl.read.report import ProblemReport
from noetl.facts.outcome import ErrorKind
from noetl.net.model import Template

#: Seconds between two tries after an error, unless given.
_DELAY_S: Final = 1
_KINDS: Final = get_args(ErrorKind)
#: What says the delay, the first that is there.
_DELAYS: Final = ("delay", "initial_delay", "backoff_seconds")
#: By how much a delay grows → what the canonical form calls it.
_GROWTH: Final = {1: "fixed", 2: "exponential"}


class RetryEntry:
    """One entry of `retry`; what stands under `then` is laid over what stands beside it."""

    def __init__(self, spot: Located, guards: Guards) -> None:
        self.path = spot.path
        self._guards = guards
        mappings = [one for one in (spot, spot.get("then")) if one is not None]
        given = [item for one in mappings for item in one.entries().items()]
        self._keys = {key: one for key, one in given if one.value is not None}
        if (backoff := self._keys.get("backoff")) is not None and not isinstance(backoff.value, str):
            self._keys.setdefault("delay", self._keys.pop("backoff"))

    def get(self, *keys: str) -> Located | None:
        """What stands under the first of `keys` that is given."""
        return next((self._keys[key] for key in keys if key in self._keys), None)

    @property
    def repeats(self) -> bool:
        """Whether it is about successes."""
        return "next_call" in self._keys

    def when(self, *, unless: Located | None = None) -> Located:
        """The guard; where `unless` holds it does not."""
        given = [self._keys[key] for key in ("when", "retry_when") if key in self._keys]
        # Errors that are named by kind or status.
        named = [
            Located(f"{{{{ {asks} in {values} }}}}", self._keys[key].path)
            for key, asks, values in (
                ("retry_on", "error.kind", self.kinds()),
                ("retry_on_status", "outcome.http.status", self.statuses()),
            )
            if values
        ]
        given += [self._guards.some(*named)] if named else []
        stop = [] if unless is None else [self._guards.no(unless)]
        return self._guards.every(*given, *stop, Located(None, self.path))

    def kinds(self) -> list[str]:
        """The kinds of errors that are tried again: `connection_error` is `connection`."""
        names = [one for one in self._list("retry_on") if isinstance(one, str)]
        return [one if one in _KINDS else one.removesuffix("_error") for one in names]

    def statuses(self) -> list[int]:
        """The statuses of answers that are asked for again."""
        return [one for one in self._list("retry_on_status") if isinstance(one, int)]

    def odd(self) -> Iterator[tuple[str, Any]]:
        """What is listed and is neither: below `then` nothing has looked at their types."""
        for key, sort in (("retry_on", str), ("retry_on_status", int)):
            yield from ((key, one) for one in self._list(key) if not isinstance(one, sort))

    def _list(self, key: str) -> list[Any]:
        given = self._keys[key].value if key in self._keys else []
        return given if isinstance(given, list) else [given]


def error_rules(entries: Iterable[RetryEntry], report: ProblemReport) -> Tree:
    """The rules of a policy that tries again after errors; None where no entry is about errors."""
    rules: list[Tree] = []
    for entry in entries:
        if entry.repeats:
            continue
        stop = entry.get("stop_when")
        if stop is not None:
            rules.append({"when": stop.moved, "then": {"do": "fail"}})
        rules.append(Rewritten(_error_rule(entry, report), entry.path))
    if not rules:
        return None
    last = [] if "else" in plain(rules[-1]) else [{"else": {"then": {"do": "fail"}}}]
    return [{"when": SUCCEEDED, "then": {"do": "continue"}}, *rules, *last]


def repetition(
    entries: Iterable[RetryEntry], sinks: SinkTasks, labels: NewNames, report: ProblemReport
) -> Tree:
    """`repeat` for the entries that are about successes; None where there is none. `labels` are
    those of the step."""
    found = [entry for entry in entries if entry.repeats]
    if not found:
        return None
    calls = [_next(entry) for entry in found]
    rows = _rows_of_page(next((one for entry in found if (one := entry.get("collect")) is not None), None))
    made: dict[str, Tree] = {"next": calls if len(calls) > 1 else calls[0]}
    for entry in found:
        each = _each(entry, sinks, labels, rows)
        for key, value in (_settings(entry, report) | each).items():
            if key in made and plain(made[key]) != plain(value):
                message = f"another `{key}` for the same calls has no effect"
                hint = "all entries with next_call are one repetition: say it once"
                report.add(Code.IGNORED, entry.path, message, hint)
            made.setdefault(key, value)
    return Rewritten(made, found[0].path)


# --- after errors ---


def _error_rule(entry: RetryEntry, report: ProblemReport) -> dict[str, Tree]:
    given = {
        "attempts": entry.get("max_attempts", "attempts"),
        "delay": entry.get(*_DELAYS),
        "jitter": entry.get("jitter"),
    }
    then: dict[str, Tree] = {"do": "retry"}
    then |= {key: spot.moved for key, spot in given.items() if spot is not None}
    then.setdefault("delay", _DELAY_S)
    backoff = _backoff(entry, report)
    if backoff is not None:
        then["backoff"] = backoff
    for key in ("collect", "per_iteration"):
        _ignore(entry, key, "after an error", "it belongs to an entry with next_call", report)
    for kind in entry.kinds():
        if kind not in _KINDS:
            hint = report.suggest(kind, _KINDS, f"kinds are {', '.join(_KINDS)}")
            report.add(
                Code.VALUE, (*entry.path, "retry_on"), f"{quote_value(kind)} is no kind of error", hint
            )
    for key, one in entry.odd():
        hint = "list kinds of errors" if key == "retry_on" else "list numbers, such as 503"
        report.add(Code.VALUE, (*entry.path, key), f"{quote_value(one)} cannot stand in {key}", hint)
    when = entry.when()
    return {"else": {"then": then}} if when.value is True else {"when": when.moved, "then": then}


def _backoff(entry: RetryEntry, report: ProblemReport) -> Tree:
    backoff, factor = entry.get("backoff"), entry.get("backoff_multiplier")
    if factor is not None:
        meant = _GROWTH.get(factor.value)
        if meant is None or (backoff is not None and backoff.value != meant):
            message = f"backoff_multiplier is {quote_value(factor.value)}"
            hint = "delays double with backoff: exponential, or stay with backoff: fixed"
            report.add(Code.VALUE, factor.path, message, hint)
        backoff = backoff or Located(meant, factor.path)
    if backoff is not None and backoff.value in ("linear", "exponential"):
        hint = "delays grow up to an hour, or to the first one where that is longer"
        _ignore(entry, "max_delay", f"beside backoff: {backoff.value}", hint, report)
    return None if backoff is None else backoff.moved


# --- after successes ---


def _next(entry: RetryEntry) -> Tree:
    call = entry.get("next_call")
    assert call is not None  # an entry that repeats has one
    when = entry.when(unless=entry.get("stop_when"))
    changed = {key: spot.moved for key, spot in call.entries().items() if key != "when"}
    return Rewritten({"when": when.moved, **changed}, call.path)


def _settings(entry: RetryEntry, report: ProblemReport) -> dict[str, Tree]:
    given = {
        "max": entry.get("max_attempts", "attempts"),
        "delay": entry.get(*_DELAYS),
        "collect": entry.get("collect"),
    }
    made: dict[str, Tree] = {key: spot.moved for key, spot in given.items() if spot is not None}
    backoff = _backoff(entry, report)
    if backoff is not None:
        made["backoff"] = backoff
    _ignore(entry, "jitter", "between calls that went well", "leave it out", report)
    return made


def _each(entry: RetryEntry, sinks: SinkTasks, labels: NewNames, rows: Template) -> dict[str, Tree]:
    """What runs after every call, where an entry says so."""
    follows = entry.get("per_iteration")
    sink = follows.get("sink") if follows is not None else None
    return {} if sink is None else {"each": Rewritten(sinks.of(sink, labels, rows=rows), sink.path)}


def _rows_of_page(collect: Located | None) -> Template:
    """What a page has for a table: what is collected of it, for http from the body or the response
    as there, else the page."""
    path = collect.get("path") if collect is not None else None
    if path is None or not path.value:
        return "{{ args.data }}"
    parts = path.value.split(".")
    place = "".join(f"[{part if part.isdecimal() else json.dumps(part)}]" for part in parts)
    return f"{{{{ args.data{place} | default(args.response{place}) }}}}"


def _ignore(entry: RetryEntry, key: str, where: str, hint: str, report: ProblemReport) -> None:
    found = entry.get(key)
    if found is not None:
        report.add(Code.IGNORED, found.path, f"`{key}` has no effect {where}", hint, at_key=True)
