"""Whether what a playbook names is there before an execution of it begins: credentials and called
playbooks. None is opened, and none is registered."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, assert_never

from noetl.dsl.read.places import find_text
from noetl.engine.plan import Plan
from noetl.engine.prerequisites import BEFORE, Prerequisite
from noetl.errors import NotFound, PrerequisitesMissing
from noetl.facts.json import JsonMap
from noetl.facts.prerequisites import place_of
from noetl.usecases import catalog
from noetl.usecases.credentials import best, explain_absence
from noetl.usecases.ports import PlaybookRow, Transaction
from noetl.usecases.runtime import Runtime

#: How many the sentence names; all of them are told beside it.
_NAMED: Final = 5


def find_missing(
    rt: Runtime, tx: Transaction, playbook: PlaybookRow, plan: Plan, steps: Container[str] | None = None
) -> PrerequisitesMissing | None:
    """Why an execution of the playbook, whose plan that is, cannot begin; None where it can.
    `steps` are those that it may come to; None: all."""
    if not rt.checks_prerequisites:
        return None
    faults = [
        _describe(one, why, playbook, plan)
        for one in plan.prerequisites(rt.kinds)
        if steps is None or BEFORE in one.steps or any(step in steps for step in one.steps)
        if (why := _explain(rt, tx, one, playbook.path)) is not None
    ]
    return _refuse(playbook.path, faults) if faults else None


def _explain(rt: Runtime, tx: Transaction, wanted: Prerequisite, path: str) -> str | None:
    """Why it is not there, for executions of the playbook at `path`; None where it is."""
    match wanted.kind:
        case "credential":
            rows = tx.credentials.find(wanted.name)
            return explain_absence(tx, wanted.name, path, rows) if best(rows, path, "") is None else None
        case "playbook":
            try:
                catalog.look_for_called(tx, rt.library, wanted.name, wanted.version)
            except NotFound as error:
                return error.message
            return None
        case _:
            assert_never(wanted.kind)


def _describe(wanted: Prerequisite, why: str, playbook: PlaybookRow, plan: Plan) -> JsonMap:
    """`{kind, name, version, step, entry, file, line, column, message}`."""
    below = ("keychain",) if wanted.entry else ()
    found = find_text(playbook.content, wanted.name, line=wanted.line, below=below)
    line, column = found or (wanted.line or None, None)
    return {
        "kind": wanted.kind,
        "name": wanted.name,
        "version": wanted.version,
        "step": wanted.steps[0] or None,
        "entry": wanted.entry or None,
        "file": plan.net.file or playbook.path,
        "line": line,
        "column": column,
        "message": why,
    }


def _refuse(path: str, faults: list[JsonMap]) -> PrerequisitesMissing:
    told = " ".join(f"{place_of(one)}: {one['message']}" for one in faults[:_NAMED])
    more = f" And {len(faults) - _NAMED} more." if len(faults) > _NAMED else ""
    return PrerequisitesMissing(
        f"Nothing of playbook {path!r} was started, because something that it names is not there. "
        f"{told}{more} What comes only while it runs is declared under `provides`.",
        faults,
    )
