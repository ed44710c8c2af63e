"""Lines of a plan for people: its steps, each with its loop, its tasks and its arcs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from noetl.cli.console import align_columns
from noetl.facts import json
from noetl.facts.json import Json
from noetl.forecast.model import (
    ArcForecast,
    Forecast,
    LoopForecast,
    Rendered,
    RepeatForecast,
    StepEnds,
    StepForecast,
    TaskForecast,
    errors_of,
    needs_of,
    renderings,
    warnings_of,
)
from noetl.net.model import Admission, Demand, Milestone, Template

#: Indent of what stands in a section.
IN: Final = "  "
#: Characters of a value or a template that are shown.
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Line:
    """`mood` says how it looks where there are colours."""

    text: str
    mood: str = "plain"


MOODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "title": {"bold": True},
    "quiet": {"dim": True},
    "warning": {"fg": "yellow"},
    "bad": {"fg": "red"},
}


def wrap(text: str, width: int) -> list[str]:
    """`text` on lines of at most `width` characters; 0 leaves it whole."""
    if not width or len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, max(width, 40), subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False
    )


def print_lines(lines: Iterable[Line]) -> None:
    """Prints to standard output; on a terminal lines are coloured, and wrap."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines:
        for text in wrap(line.text, width):
            click.echo(click.style(text, **MOODS[line.mood]) if line.mood != "plain" else text)


def columns(rows: list[tuple[list[str], str]]) -> Iterator[Line]:
    """Rows of cells with their moods, aligned."""
    if rows:
        texts = align_columns([cells for cells, _ in rows], 10_000)
        yield from (Line(text, mood) for text, (_, mood) in zip(texts, rows, strict=True))


def names(found: Iterable[str]) -> str:
    return ", ".join(found)


def reads(needs: tuple[str, ...]) -> str:
    return f" (reads {names(needs)})" if needs else ""


def short(value: Json) -> str:
    """A value on one line."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def cut(text: str) -> str:
    """`text` without line ends, and not too long."""
    line = " ".join(text[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


#: Indent of what is said of a step.
_DEEP: Final = "     "

#: When a step fires that several arcs lead to, by the mode of its join.
_JOINS: Final = {
    "auto": "once, when no other branch can still come",
    "all": "when all have come",
    "any": "for each that comes",
    "first": "for the first that comes",
    "count": "when {count} have come",
    "tokens": "for each {count} tokens, whichever arcs they come over",
}
#: What becomes of a token that is not admitted.
_DENIED: Final = {
    "pending": "it waits",
    "skip": "it is skipped",
    "pass": "it is passed over, and its arcs are asked",
    "fail": "it fails",
}


def steps(forecast: Forecast) -> Iterator[Line]:
    for number, step in enumerate(forecast.steps, 1):
        roles = {forecast.final_step: "last, once", forecast.entry: "entry"}
        said = [step.name, roles.get(step.name, step.role), f"queue {step.queue}" if step.queue else ""]
        yield Line(f"{number:>3}  {' · '.join(filter(None, said))}", "title")
        yield from (Line(_DEEP + line.text, line.mood) for line in _step(step))


def _step(step: StepForecast) -> Iterator[Line]:
    if step.description:
        yield Line(cut(step.description), "quiet")
    if step.joins:
        when = _JOINS[step.join.mode].format(count=step.join.count)
        rest = ", and cancels the rest" if step.join.cancel_rest else ""
        yield Line(f"joins {names(step.sources)}: {when}{rest}")
    if step.ends.milestone is not None:
        yield Line(_milestone(step.ends.milestone))
    if step.admit is not None:
        yield Line(_admission(step.admit))
    if step.loop is not None:
        yield from _loop(step.loop, _order(step.loop))
        if step.loop.cursor is not None:
            yield Line(f"{IN}claims with {short(step.tasks[0].config['command'].value)}")
    yield from failures(step.args.values())
    for task in step.tasks:
        yield from _task(task, named=len(step.tasks) > 1)
    yield from _ends(step.ends)
    for arc in step.arcs:
        # Where a router takes one choice, arcs of it belong together.
        yield from _arc(arc, together=arc.also and step.router != "inclusive")


def _milestone(milestone: Milestone) -> str:
    after = f"once {milestone.after} is done" if milestone.after else ""
    before = f"until {milestone.before} begins" if milestone.before else ""
    return f"may begin {', '.join(filter(None, (after, before)))}"


def _ends(ends: StepEnds) -> Iterator[Line]:
    if ends.completes:
        yield Line(f"ends what runs of {names(ends.completes)} as done")
    if ends.terminate is not None:
        yield Line(f"ends the execution as {ends.terminate}")


def _admission(admit: Admission) -> str:
    rules = (
        ("admitted " if rule.allow else "refused ")
        + ("otherwise" if rule.when is None else f"when {short(rule.when)}")
        for rule in admit.rules
    )
    return f"{', '.join(rules)}; where it is refused {_DENIED[admit.on_deny]}"


def _loop(loop: LoopForecast, order: str) -> Iterator[Line]:
    count = (
        "as many as that has" if loop.count is None else f"{loop.count} item{'' if loop.count == 1 else 's'}"
    )
    where = f"in {short(loop.collection.value)}: {count}"
    if loop.cursor is not None:
        where = f"that {loop.cursor} claims: as many as there are"
    yield Line(f"for each {loop.iterator} {where}, {order}")
    for said in _ends_of_loop(loop):
        yield Line(f"{IN}{said}")
    if needs := needs_of(renderings(loop)):
        yield Line(f"{IN}reads {names(needs)}", "quiet")
    yield from failures(renderings(loop))


def _ends_of_loop(loop: LoopForecast) -> Iterator[str]:
    """What brings items, and what the step does not wait for."""
    if loop.grow is not None:
        yield f"and for each of what {short(loop.grow)} brings"
    if loop.close is not None:
        yield f"open until {short(loop.close)}"
    if not loop.sync:
        yield "the step does not wait for them"
    if loop.enough is not None:
        rest = "the others are cancelled" if loop.rest == "cancel" else "the others run on"
        yield f"until {short(loop.enough)}; {rest}"


def _order(loop: LoopForecast) -> str:
    return f"{loop.mode}, {short(loop.width.value)} at a time" if loop.mode == "parallel" else loop.mode


def _task(task: TaskForecast, *, named: bool) -> Iterator[Line]:
    said = [f"{task.name}  {task.kind}" if named else task.kind, *(touch for touch in task.touches[:1])]
    if task.tries is not None:
        said.append(f"up to {short(task.tries)} tries")
    if task.jumps:
        said.append(f"may jump to {names(task.jumps)}")
    yield Line("  ".join(said), "plain" if task.is_called else "quiet")
    for touch in task.touches[1:]:
        yield Line(f"{IN}{touch}")
    for line in _how_often(task):
        yield Line(IN + line.text, line.mood)
    if task.expects:
        yield Line(f"{IN}expects {_demands(task.expects)}", "quiet")
    if task.returns:
        yield Line(f"{IN}has to return {_demands(task.returns)}", "quiet")
    if task.needs:
        yield Line(f"{IN}reads {names(task.needs)}", "quiet")
    yield from failures((*task.config.values(), *task.args.values()))


def _how_often(task: TaskForecast) -> Iterator[Line]:
    if task.after is not None:
        yield Line(f"at the end of the step{_when(task.after.when, task.after.runs)}")
        yield from failures((task.after.guard,))
    if task.behind:
        yield Line(f"after every call of {task.behind}")
    elif task.repeat is not None:
        yield Line(_again(task.repeat))
        yield from failures((task.repeat.most,))
    if task.loop is not None:
        yield from _loop(task.loop, "one after another in its worker")


def _again(repeat: RepeatForecast) -> str:
    most = f"at most {short(repeat.most.value)} calls{reads(repeat.most.needs)}"
    changes = f", later ones with other {names(repeat.changes)}" if repeat.changes else ""
    if repeat.pages:
        until = "" if repeat.until in (None, False) else f" until {short(repeat.until)}"
        return f"again while there are more pages (by {repeat.pages}){until}: {most}{changes}"
    guards = [short(when) for when in repeat.when if isinstance(when, str)]
    return f"again{' while ' if guards else ''}{' or '.join(guards)}: {most}{changes}"


def _demands(demands: Iterable[Demand]) -> str:
    return names(one.path + (f" ({one.type})" if one.type != "any" else "") for one in demands)


def _arc(arc: ArcForecast, *, together: bool) -> Iterator[Line]:
    """`together`: it belongs to the choice of the arc before it, where a router takes one
    choice."""
    sets = f"sets {names(arc.sets)}" if arc.sets else ""
    target = f"{'and ' if together else ''}→ {arc.step}" if arc.step else sets
    if arc.times.value != 1:
        target += f" ×{short(arc.times.value)}"
    behind = f", {sets}" if arc.step and sets else ""
    guard = " otherwise" if arc.taken is None and arc.when is None else _when(arc.when, arc.taken)
    yield Line(f"{target}{guard}{behind}", "quiet" if arc.taken is False else "plain")
    yield from failures(renderings(arc))


def _when(when: Template, holds: bool | None) -> str:
    """The guard of an arc or a task, and whether it holds."""
    said = "" if when is None or when is True else f" when {short(when)}"
    if holds is None:
        return said
    return f"{said} (never, with this workload)" if not holds else said and f"{said} (it holds)"


def failures(values: Iterable[Rendered]) -> Iterator[Line]:
    every = tuple(values)
    yield from (Line(f"would fail: {error}", "bad") for error in errors_of(every))
    yield from (Line(f"would warn: {warning}", "warning") for warning in warnings_of(every))
