"""`next` in all its forms, those with `then` and `else` included, to arcs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from noetl.dsl.dialects.guards import SUCCEEDED, Guards, asks_how_it_ended
from noetl.dsl.dialects.parts import Spot
from noetl.dsl.dialects.rules.drafts import Choice, Guard, Mode, Onward, Route, names_of
from noetl.dsl.document import Arc, known_keys
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import Moved, Tree
from noetl.dsl.read.report import ProblemReport

_OF_TRANSITIONS: Final = frozenset({"when", "then", "else", "desc"})
#: What of an arc is not handed over as it stands.
_OF_WAYS: Final = frozenset({"step", "when", "set", "then", "else"})


def onward(form: Any, path: Path, report: ProblemReport) -> Onward | None:
    """The arcs of `next`, which stands at `path`; None where it is nothing. Problems are in
    `report`."""
    if isinstance(form, dict) and ("arcs" in form or "spec" in form or not _is_item(form)):
        spec = names_of(form.get("spec"))
        mode: Mode = spec.get("mode") or "exclusive"
        items = [(item, (*path, "arcs", index)) for index, item in enumerate(form.get("arcs") or [])]
        return _onward(Onward(path, mode, spec=dict(spec), written=form), items, report)
    if isinstance(form, list):
        items = [(item, (*path, index)) for index, item in enumerate(form)]
        mode = "exclusive" if _is_one_decision(form) else "inclusive"
        return _onward(Onward(path, mode, written=form), items, report)
    if form is None:
        return None
    return _onward(Onward(path, written=form), [(form, path)], report)


def targets(form: Any, path: Path) -> Choice:
    """The arcs of `then`, `else`: a name, a mapping with step, or a list of them."""
    if isinstance(form, list):
        return [route(item, (*path, index)) for index, item in enumerate(form)]
    return [route(form, path)]


def route(item: Any, path: Path) -> Route:
    """One arc, a name or a mapping, without `then` and `else`."""
    if isinstance(item, str):
        return Route(path, item, path)
    body: dict[str, Tree] = {
        key: Moved(value, (*path, key)) for key, value in item.items() if key not in _OF_WAYS
    }
    if "set" in item:
        body["set"] = {
            name: Moved(value, (*path, "set", name)) for name, value in names_of(item["set"]).items()
        }
    return Route(path, item.get("step"), (*path, "step"), item.get("when"), (*path, "when"), body)


def both(report: ProblemReport, path: Path, *guards: Guard) -> Guard:
    """Holds where all of `guards` do. One that cannot be put together with others is a problem at
    `path`."""
    return _guard(Guards(report).every(*(Spot(guard, path) for guard in guards)))


def none_of(report: ProblemReport, path: Path, guards: Sequence[Guard]) -> Guard:
    """Holds where none of `guards` does. A problem at `path`, as in `both`."""
    joined = Guards(report)
    return _guard(joined.every(*(joined.no(Spot(guard, path)) for guard in guards)))


def _guard(made: Spot) -> Guard:
    guard: Guard = made.value
    return None if guard is True else guard


def _is_item(form: Any) -> bool:
    return isinstance(form, dict) and bool({"step", "then", "else"} & form.keys())


def _branches(form: Any) -> bool:
    return isinstance(form, dict) and bool({"then", "else"} & form.keys())


def _is_one_decision(items: list[Any]) -> bool:
    """Whether at most one item can act: a lone one that branches, or one and an `else`."""
    if not items or not _branches(items[0]):
        return False
    rest = items[1:]
    return not rest or (len(rest) == 1 and _is_else(rest[0]) and "else" not in items[0])


def _is_else(item: Any) -> bool:
    return isinstance(item, dict) and "else" in item and "then" not in item and item.get("when") is None


def _onward(made: Onward, items: list[tuple[Any, Path]], report: ProblemReport) -> Onward:
    asked: list[Guard] = []
    for item, path in items:
        if isinstance(item, list):
            _check_choice(item, path, report)
            made.choices.append(targets(item, path))
        elif not _branches(item):
            one = route(item, path)
            asked.append(one.when)
            made.choices.append([one])
        else:
            made.changed()
            made.choices.extend(_decision(item, path, asked, made.mode == "inclusive", report))
            if not _is_else(item):
                asked.append(item.get("when"))
    if made.mode == "inclusive":
        made.choices = [[one] for one in made.routes]
    return made


def _check_choice(items: list[Any], path: Path, report: ProblemReport) -> None:
    """A list among arcs is one choice already: what branches is none of its arcs."""
    for index, item in enumerate(items):
        for key in sorted({"then", "else"} & names_of(item).keys()):
            message = (
                f"`{key}` stands in a list of arcs, which is one choice: its arcs have `step`, "
                "`when` and `set`"
            )
            hint = "make it an item of next.arcs by itself"
            report.add(Code.MISPLACED, (*path, index, key), message, hint, at_key=True)


def _decision(
    item: dict[str, Any], path: Path, before: list[Guard], inclusive: bool, report: ProblemReport
) -> Iterator[Choice]:
    """The choices of `{when, then, else}`; `before` are the guards of the items before it."""
    when: Guard = item.get("when")
    then = _then(item, path, report)
    if then:
        yield _under(when, (*path, "when"), then, report)
    if item.get("else") is None:
        return
    at = (*path, "else")
    refused: Guard = None
    # In exclusive mode what comes later is not asked, unless a target was refused by a guard of its
    # own.
    if inclusive or any(one.when is not None for one in then):
        held: list[Guard] = before if _is_else(item) else [when]
        refused = _otherwise(report, at, held)
    yield _under(refused, at, targets(item["else"], at), report)


def _then(item: dict[str, Any], path: Path, report: ProblemReport) -> Choice:
    if item.get("then") is None and item.get("step") is not None:
        return [route({**item, "when": None}, path)]
    beside = "then" if item.get("then") is not None else "else"
    for key in sorted(item.keys() - _OF_TRANSITIONS):
        hint = "put it at the target: {step, args, set}"
        if key not in known_keys(Arc):
            hint = report.suggest(key, sorted(_OF_TRANSITIONS), hint)
        message = f"`{key}` means nothing beside {beside}"
        add_unknown_key(report, (*path, key), message, hint, _OF_TRANSITIONS, item)
    return targets(item["then"], (*path, "then")) if beside == "then" else []


def _otherwise(report: ProblemReport, path: Path, held: Sequence[Guard]) -> Guard:
    """None of them holds. What has no guard of its own is for success only, and so is this."""
    guard = none_of(report, path, held)
    return both(report, path, SUCCEEDED, guard) if asks_how_it_ended(guard) else guard


def _under(when: Guard, path: Path, choice: Choice, report: ProblemReport) -> Choice:
    return [
        one.guarded(when, path)
        if one.when is None
        else one.guarded(both(report, one.when_path, when, one.when), one.when_path)
        for one in choice
    ]
