"""`retry` of the classic dialect: it is a policy after errors and where it polls, and a `repeat`
where another call follows a success."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

from noetl.dsl.dialects.classic.sinks import SinkTasks
from noetl.dsl.dialects.parts import FAILED, SUCCEEDED, Guards, Located, NewNames, heads
from noetl.dsl.problems import SINCE, Code, Path, quote_value
from noetl.dsl.read.origins import Rewritten, Tree, plain
from noetl.dsl.read.report import ProblemReport
from noetl.facts.outcome import ErrorKind
from noetl.net.model import Template

#: Seconds between two tries after an error, unless given.
_DELAY_S: Final = 1
_KINDS: Final = get_args(ErrorKind)
_GUARDS: Final = ("when", "retry_when", "stop_when")
#: What a call yielded, and how it ended, as guards read it.
_OF_RESULTS: Final = frozenset({"response", "result"})
_OF_ENDS: Final = frozenset({"error", "outcome", "output"})
_NAMED: Final = ("retry_on", "retry_on_status")
#: What says the delay, the first that is there.
_DELAYS: Final = ("delay", "initial_delay", "backoff_seconds")
_CONTINUE: Final[Tree] = {"when": SUCCEEDED, "then": {"do": "continue"}}
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
        """Whether another call follows a success."""
        return "next_call" in self._keys

    @property
    def polls(self) -> bool:
        """Whether it repeats the same call after a success: its guard reads what the call
        yielded."""
        return not self.repeats and not _OF_RESULTS.isdisjoint(self._heads)

    @property
    def of_errors(self) -> bool:
        """Whether it says itself after which errors it acts."""
        return self.get(*_NAMED) is not None or not _OF_ENDS.isdisjoint(self._heads)

    @property
    def takes_all(self) -> bool:
        """Whether no entry behind it is asked after the same end of a call."""
        return self.when().value is True and not (self.repeats and "stop_when" in self._keys)

    @property
    def _heads(self) -> frozenset[str]:
        """The names that its guards read."""
        return frozenset(name for key in _GUARDS if key in self._keys for name in heads(self._keys[key]))

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

    def when_polled(self) -> Located:
        """The guard of a poll, which is asked after errors only where it mentions them: what a
        failed call yielded is undefined, and would mostly hold."""
        when = self.when(unless=self.get("stop_when"))
        return when if self.of_errors else self._guards.every(SUCCEEDED, when)

    def when_failed(self, guard: Located) -> Located:
        """`guard` where it is asked after successes as well, and is about errors."""
        return self._guards.every(FAILED, guard)

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


def policy_rules(entries: Iterable[RetryEntry], report: ProblemReport) -> Tree:
    """The rules of a policy that tries again after errors, and polls; None where no entry is about
    either."""
    found = [entry for entry in entries if not entry.repeats]
    if not found:
        return None
    _refuse_unasked([entry for entry in found if not entry.polls], report, "error")
    # Successes end behind the last entry that is asked after them.
    end = max((number for number, entry in enumerate(found, 1) if entry.polls), default=0)
    tries: dict[str, Tree] = {"count": "alike"} if end and len(found) > 1 else {}
    rules: list[Tree] = []
    _note_polls(found, report)
    for number, entry in enumerate(found):
        then = _then(entry, report) | tries
        if number == end:
            rules.append(_CONTINUE)
        rules += _rules_of(entry, then, among_polls=number < end)
    if end == len(found):
        rules.append(_CONTINUE)
    last = [] if "else" in plain(rules[-1]) else [{"else": {"then": {"do": "fail"}}}]
    return [*rules, *last]


def repetition(
    entries: Iterable[RetryEntry], sinks: SinkTasks, labels: NewNames, report: ProblemReport
) -> Tree:
    """`repeat` for the entries that are about successes; None where there is none. `labels` are
    those of the step."""
    found = [entry for entry in entries if entry.repeats]
    if not found:
        return None
    _refuse_unasked(found, report, "success")
    for entry in found:
        if (named := entry.get(*_NAMED)) is not None:
            message = "the entry is never asked: it names errors, and next_call follows a success"
            _refuse(report, named.path, message, "make it an entry of its own, without next_call")
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


# --- after errors, and polls ---


def _note_polls(found: list[RetryEntry], report: ProblemReport) -> None:
    for entry in found:
        if entry.polls:
            message = f"the guard reads what a call yielded, and is asked after successes {SINCE}"
            report.add(Code.CHANGED, entry.path, message, "ask for error.kind where it is about errors")


def _rules_of(entry: RetryEntry, then: Tree, *, among_polls: bool) -> list[Tree]:
    """The rules of an entry, which stands before one that polls, or polls itself, or does not."""
    if entry.polls:
        return [Rewritten({"when": entry.when_polled().moved, "then": then}, entry.path)]
    when, stop = entry.when(), entry.get("stop_when")
    if among_polls:
        when, stop = entry.when_failed(when), None if stop is None else entry.when_failed(stop)
    rule = {"else": {"then": then}} if when.value is True else {"when": when.moved, "then": then}
    stops = [] if stop is None else [{"when": stop.moved, "then": {"do": "fail"}}]
    return [*stops, Rewritten(rule, entry.path)]


def _then(entry: RetryEntry, report: ProblemReport) -> dict[str, Tree]:
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
        if (found := entry.get(key)) is not None:
            message = f"`{key}` has no effect: the entry repeats the same call"
            _refuse(report, found.path, message, "add next_call: {...} with what the next call has other")
    _check_named(entry, report)
    return then


def _check_named(entry: RetryEntry, report: ProblemReport) -> None:
    for kind in entry.kinds():
        if kind not in _KINDS:
            hint = report.suggest(kind, _KINDS, f"kinds are {', '.join(_KINDS)}")
            report.add(
                Code.VALUE, (*entry.path, "retry_on"), f"{quote_value(kind)} is no kind of error", hint
            )
    for key, one in entry.odd():
        hint = "list kinds of errors" if key == "retry_on" else "list numbers, such as 503"
        report.add(Code.VALUE, (*entry.path, key), f"{quote_value(one)} cannot stand in {key}", hint)


# --- what can never act ---


def _refuse(report: ProblemReport, path: Path, message: str, hint: str) -> None:
    """An error; where older versions let it pass, a warning."""
    report.add(Code.IGNORED if report.lenient else Code.MISPLACED, path, message, hint, at_key=True)


def _refuse_unasked(found: list[RetryEntry], report: ProblemReport, end: str) -> None:
    """Entries of `found`, which are asked after the same `end` of a call, behind one that takes
    all."""
    behind = itertools.dropwhile(lambda entry: not entry.takes_all, found)
    for entry in itertools.islice(behind, 1, None):
        message = f"this entry of retry is never asked: the one before it takes every {end}"
        _refuse(report, entry.path, message, "put it first, or give the one before it a when:")


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
