"""Values: inputs that nothing gives, writes that nothing reduces, circles in the workload, secrets
in plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeAlias

from noetl.dsl.checks.subject import Subject
from noetl.dsl.checks.templates import FOR_WORKLOAD
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.expressions import names_used, path_of
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_secret_header, is_secret_name
from noetl.net.model import EACH_INPUTS, Demand, Net


def check_inputs(subject: Subject) -> Iterator[Finding]:
    """Inputs that a task expects, and that neither it nor its step nor an arc gives."""
    net, notes = subject.net, subject.notes
    if net is None or not notes.is_whole or not notes.expecting:
        return
    given = inputs_around(net, nulls=False)
    for one in notes.expecting:
        for demand in one.expects:
            head = _first_name(demand)
            if not one.given.get(head, head in given[one.step]):
                who = f"workbook task {quote_value(demand.of)}" if demand.of else "the task"
                spare = (one.own | given[one.step]) - {_first_name(other) for other in one.expects}
                yield Finding(
                    Code.MISSING,
                    one.path,
                    f"{who} expects the input {quote_value(demand.path)}, and nothing gives it",
                    subject.names.suggest(head, sorted(spare), f"add input: {{{head}: ...}}"),
                )


def check_parallel_writes(subject: Subject) -> Iterator[Finding]:
    """Assignments to ctx by iterations that run side by side, which no reducer folds."""
    for write in subject.notes.parallel_writes:
        if write.name not in write.reduced:
            yield Finding(
                Code.UNREDUCED,
                write.path,
                f"ctx.{write.name} is written by the iterations of a parallel loop without a reducer",
                (
                    f"add loop.spec.reduce: {{ctx.{write.name}: append}}, write iter.{write.name}, or assign "
                    "it once, when event.name is 'loop.done'"
                ),
                at_key=True,
            )


def inputs_around(net: Net, *, nulls: bool) -> Mapping[str, set[str]]:
    """Step → the names of the inputs that it and the arcs to it give to its tasks. `nulls`: those
    to which the step gives null as well."""
    given: dict[str, set[str]] = {step.name: set() for step in net.transitions}
    for arc in net.arcs.values():
        given[arc.step].update(arc.args)
    for step in net.transitions:
        for names in (step.args, *(task.given for task in step.tasks)):
            given[step.name] |= {name for name, value in names.items() if nulls or value is not None}
        if any(task.each_of for task in step.tasks):
            given[step.name].update(EACH_INPUTS)
        given[step.name] |= net.given_by_engine(step.name)
    return given


def _first_name(demand: Demand) -> str:
    return str((path_of(demand.path) or ("",))[0])


#: Where a value stands in the workload: keys of mappings. A list is one value, with all that is in
#: it.
_Place: TypeAlias = tuple[str, ...]

#: Circles that are reported of one playbook.
_MOST: Final = 20
#: Values of a circle that a message names.
_SHOWN: Final = 10


def check_circles(subject: Subject) -> Iterator[Finding]:
    """Values that name each other: a run ends there, unless its payload gives one of them."""
    # With the defaults of declared inputs, which are values of it like any other.
    workload = subject.net.workload if subject.net is not None else subject.document.workload or {}
    named = {place: set(_find_references(workload, place, value)) for place, value in _values(workload, ())}
    for _ in range(_MOST):
        try:
            TopologicalSorter(named).prepare()
            return
        except CycleError as error:
            # From who is named to who names it, the first once more at the end.
            circle = tuple(reversed(error.args[1]))
        start = min(circle)
        turned = circle[circle.index(start) : -1] + circle[: circle.index(start) + 1]
        shown = [".".join(place) for place in turned]
        names = " → ".join(shown if len(shown) <= _SHOWN else [*shown[: _SHOWN - 2], "…", shown[-1]])
        yield Finding(
            Code.CIRCLE,
            _path_of(subject, start),
            f"values refer to each other in a circle: {names}",
            "write one of them out; a run goes on only where its payload gives one",
        )
        named[start] = set()


def _path_of(subject: Subject, place: _Place) -> Path:
    """Where the value stands in the document: below `workload`, or as the default of an input."""
    if place[0] in (subject.document.workload or {}):
        return ("workload", *place)
    inputs = subject.document.inputs or {}
    if isinstance(inputs, dict):
        return ("inputs", place[0], "default", *place[1:])
    index = next(index for index, one in enumerate(inputs) if one.name == place[0])
    return ("inputs", index, "default", *place[1:])


def _values(value: Json, place: _Place) -> Iterator[tuple[_Place, Json]]:
    if place:
        yield place, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _values(inner, (*place, key))


def _find_references(workload: JsonMap, place: _Place, value: Json) -> Iterator[_Place]:
    """The values that the one at `place` waits for."""
    if isinstance(value, Mapping):
        yield from ((*place, key) for key in value)
        return
    for chain in names_used(value):
        if chain == ("workload",):
            yield from ((key,) for key in workload if key != place[0])
        elif chain[0] == "workload" or chain[0] not in FOR_WORKLOAD:
            found = _place(workload, chain[chain[0] == "workload" :])
            # Which of its neighbours it means may be computed.
            # A text that names itself means what the payload gives.
            own = found == place and isinstance(value, str)
            if found and not own and not (len(found) < len(place) and place[: len(found)] == found):
                yield found


def _place(workload: JsonMap, chain: tuple[str, ...]) -> _Place:
    """How far a chain leads through the workload's mappings; empty where one does not have its next
    name."""
    value: Json = workload
    for depth, part in enumerate(chain):
        if not isinstance(value, Mapping):
            return chain[:depth]
        if part not in value:
            return ()
        value = value[part]
    return chain


_NUMBERS_TOO: Final = re.compile(r".*pass(word|wd|phrase)")
_USERINFO: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^/\s:@]{0,200}:([^/\s@]{1,200})@", re.IGNORECASE)
_SCHEME: Final = re.compile(r"\w+\s+")
# What people write where no secret is to be seen.
_PLACEHOLDER: Final = re.compile(
    r"\W*|.{0,3}|[\Wx]+|<.*>|\[.*\]|\$.*|%.*%|@.*|your\W.*|your_.*|my[\W_].*|(change|replace|fill)[\W_]?.*|none|null|true|false|string|integer|number|boolean|"
    r"(an?[\W_])?(example|placeholder|dummy|fake|redacted|hidden|masked|todo|secret|password|passwd|token|key)",
    re.IGNORECASE,
)
#: Texts that are no configuration.
_PROSE: Final = frozenset({"code", "desc", "description"})
_PARTS: Final = ("workload", "workbook", "workflow", "executor")
_HINT: Final = "store it (`noetl credential set NAME ...`), and name the credential here or in the keychain"


def check_plain_secrets(subject: Subject) -> Iterator[Finding]:
    """Passwords, tokens and keys in plain text, which are hidden wherever the text is shown."""
    for part in _PARTS:
        for path, what in _secrets((part,), (subject.source.data or {}).get(part)):
            yield Finding(
                Code.IN_PLAIN_TEXT, path, f"{what} stands in the playbook as plain text", _HINT, hides=(path,)
            )


def _secrets(path: Path, value: Json) -> Iterator[tuple[Path, str]]:
    """Where secrets stand, and what to call them."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from _secrets((*path, key), inner)
        case list():
            for index, inner in enumerate(value):
                yield from _secrets((*path, index), inner)
        case str() | int():
            what = _name_secret(path, value)
            if what is not None:
                yield path, what


def _name_secret(path: Path, value: str | int) -> str | None:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    name = key.lower().replace("-", "_")
    if isinstance(value, int):
        is_secret = not isinstance(value, bool) and _NUMBERS_TOO.fullmatch(name) is not None
        return f"the value of `{key}`" if is_secret else None
    if name in _PROSE or is_template(value):
        return None
    if is_secret_header(key):
        if not _is_placeholder(_SCHEME.sub("", value, count=1), key):
            return f"the header `{key}`"
    elif is_secret_name(key) and not _is_placeholder(value, key):
        return f"the value of `{key}`"
    found = _USERINFO.search(value)
    return None if found is None or _is_placeholder(found[1], key) else "the password of an address"


def _is_placeholder(value: str, key: str) -> bool:
    return _PLACEHOLDER.fullmatch(value.strip()) is not None or value.strip().lower() == key.lower()
