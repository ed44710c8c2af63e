"""`set` at every level, to assignments with a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.document import Arc, Step, Then, Tool
from noetl.dsl.problems import Code, Path, shown
from noetl.net.model import Assignment, Scope, Template

_SCOPES: Mapping[str, Scope] = {"ctx": "ctx", "vars": "ctx", "iter": "iter", "step": "step"}
_NOT_ASSIGNABLE = frozenset({"workload", "keychain", "args", "input", "env"})


@dataclass(frozen=True, slots=True)
class Level:
    """What a name without a scope means, and whether there is an iteration to write to."""

    site: Site
    bare: Scope
    iterating: bool
    reduced: frozenset[str] | None = None


def task_level(site: Site) -> Level:
    """Of tasks and of the rules of their policies."""
    return Level(site, "local", site.iterating, site.reduced)


def step_level(site: Site) -> Level:
    """Of steps and arcs: the iterations are over, and plain names mean ctx."""
    return Level(site, "ctx", iterating=False)


def assignments(
    context: Context, part: Tool | Then | Step | Arc, path: Path, level: Level
) -> tuple[Assignment, ...]:
    """All that a part assigns, in the order of the document."""
    made = []
    for name, value in (part.set or {}).items():
        at = (*path, "set", name)
        one = assignment(context, at, name, value, level)
        if one is not None:
            context.use(at, value, level.site.step)
            made.append(one)
    return tuple(made)


def assignment(context: Context, at: Path, target: str, value: Template, level: Level) -> Assignment | None:
    """The assignment of `value` to `target`, which stands at `at`; None where it cannot be
    assigned."""
    head, dot, rest = target.partition(".")
    scope, name = (_SCOPES[head], rest) if dot and head in _SCOPES else (level.bare, target)
    fault = _fault(target, head if dot else "", scope, name, level)
    if fault is not None:
        context.report.add(Code.SCOPE, at, *fault, at_key=True)
        return None
    if scope == "ctx" and level.reduced is not None and name not in level.reduced:
        context.report.add(
            Code.UNREDUCED,
            at,
            f"ctx.{name} is written by the iterations of a parallel loop without a reducer",
            f"add loop.spec.reduce: {{ctx.{name}: append}}, or write iter.{name}",
            at_key=True,
        )
    return Assignment(scope, name, value)


def _fault(target: str, head: str, scope: Scope, name: str, level: Level) -> tuple[str, str] | None:
    if head in _NOT_ASSIGNABLE:
        return (
            f"{shown(target)} cannot be assigned: {head} does not change",
            f"assign ctx.{name.partition('.')[2]}",
        )
    if not all(part.strip() for part in name.split(".")):
        return (
            f"{shown(target)} names nothing to assign",
            "write ctx.<name>, iter.<name>, step.<name> or a name",
        )
    if scope == "iter" and not level.iterating:
        return f"{shown(target)} is assigned outside of an iteration", "assign ctx.<name> or step.<name> here"
    return None
