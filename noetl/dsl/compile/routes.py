"""All forms of `next`, to arcs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from noetl.dsl.compile.context import (
    Context,
    PipelineSite,
    as_number,
    assignments,
    inputs_of,
    whole_number,
)
from noetl.dsl.document import Arc, NextSpec, Router
from noetl.dsl.problems import Code, Path, quote_value
from noetl.errors import TemplateError
from noetl.expressions import names_used
from noetl.facts.event_names import BOUNDARY
from noetl.net.model import MOST_TIMES, Template
from noetl.net.model import Arc as NetArc


@dataclass(frozen=True, slots=True)
class Routes:
    """The arcs of a step and how its router chooses among them."""

    arcs: tuple[NetArc, ...] = ()
    mode: Literal["exclusive", "inclusive", "first"] = "exclusive"
    no_next_is_error: bool | None = None


def routes(context: Context, form: Any, path: Path, source: str) -> Routes:
    """What `next`, which stands at `path`, means for the step `source`."""
    match form:
        case Router():
            return _router(context, form, path, source)
        case list():
            return Routes(tuple(_arcs(context, form, path, source)), "inclusive")
        case str() | Arc():
            return Routes(tuple(_arcs(context, [form], path, source, single=True)))
        case _:
            return Routes()


def has_targets(form: Any) -> bool:
    """Whether `next` names any step at all."""
    return bool(form.arcs) if isinstance(form, Router) else bool(form)


def _router(context: Context, router: Router, path: Path, source: str) -> Routes:
    spec = router.spec or NextSpec()
    strict = spec.no_next_is_error
    if strict is None and spec.on_no_match is not None:
        strict = spec.on_no_match == "error"
    arcs = tuple(_arcs(context, router.arcs or [], (*path, "arcs"), source))
    return Routes(arcs, spec.mode or "exclusive", strict)


def _arcs(
    context: Context, forms: list[Any], path: Path, source: str, *, single: bool = False
) -> Iterator[NetArc]:
    count: Counter[str] = Counter()
    for index, form in enumerate(forms):
        at = path if single else (*path, index)
        also = False
        # A list is one choice: its arcs are taken together.
        for number, one in enumerate(form if isinstance(form, list) else [form]):
            arc_path = (*at, number) if isinstance(form, list) else at
            arc = Arc(step=one) if isinstance(one, str) else one
            target_path = arc_path if isinstance(one, str) else (*arc_path, "step")
            target = _target(context, arc, arc_path, target_path)
            # Waits that are well are a step of their own by now.
            context.notes.is_whole &= arc.wait is None
            if target is None:
                context.notes.is_whole = False
                continue
            count[target] += 1
            suffix = f"#{count[target]}" if count[target] > 1 else ""
            yield _arc(context, arc, arc_path, f"{source}->{target}{suffix}", source, also=also)
            also = True


def _target(context: Context, arc: Arc, at: Path, target_path: Path) -> str | None:
    """The step that the arc leads to; empty where it only assigns."""
    step = arc.step
    if step is None:
        if (
            arc.set
            and not (arc.args or arc.input)
            and not any(map(context.report.is_faulty, (at, target_path)))
        ):
            return ""
        context.report.missing(
            at, "step", "the arc does not say which step it leads to", "add step:, or set: alone to assign"
        )
        return None
    if step in context.step_names:
        return step
    context.report.add(
        Code.UNKNOWN_STEP,
        target_path,
        f"there is no step {quote_value(step)}",
        context.report.suggest(step, context.step_names, "every target must be a step of this workflow"),
    )
    return None


def _arc(context: Context, arc: Arc, at: Path, name: str, source: str, *, also: bool) -> NetArc:
    context.notes.arcs[name] = at
    context.use((*at, "when"), arc.when, source, guard=True)
    heads = frozenset[str]()
    if isinstance(arc.when, str):
        with contextlib.suppress(TemplateError):  # `check_syntax` reports it, with its line
            heads = frozenset(chain[0] for chain in names_used(arc.when, guard=True))
    return NetArc(
        id=name,
        source=source,
        step=arc.step or "",
        when=arc.when,
        # Whether the guard mentions how the step ended.
        boundary=not BOUNDARY.isdisjoint(heads),
        args=inputs_of(context, arc, at, source),
        set=assignments(context, arc, at, PipelineSite(source), "ctx"),
        line=context.report.source.mark(at).line,
        also=also,
        times=_times(context, arc, (*at, "times"), source),
    )


def _times(context: Context, arc: Arc, at: Path, source: str) -> Template:
    """How many tokens the arc puts down."""
    if arc.times is None:
        return 1
    if not arc.step:
        context.report.add(
            Code.MISPLACED, at, "the arc leads to no step, so it puts down no token", "remove times"
        )
        return 1
    context.use(at, arc.times, source)
    hint = f"write a whole number from 1 to {MOST_TIMES:,}, or a template"
    times = whole_number(context, as_number(arc.times), at, 1, hint)
    if isinstance(times, int) and times > MOST_TIMES:
        context.report.add(Code.VALUE, at, f"times is {times:,}", hint)
    return times
