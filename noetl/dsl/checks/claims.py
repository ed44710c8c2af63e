"""Statements that claim the rows of a loop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.cursors import NO_CODE
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding

_CHANGES: Final = re.compile(r"\b(update|delete|insert|merge|call)\b", re.IGNORECASE)
_ROUTINE: Final = re.compile(r"\b(?:from|select)\s+[\w.]+\s*\(", re.IGNORECASE)
_YIELDS: Final = re.compile(r"\breturning\b|(?:^|;)\s*(?:select|with|call)\b", re.IGNORECASE)
_LOCKS: Final = re.compile(r"\bfor\s+(?:no\s+key\s+)?update\b", re.IGNORECASE)


def check_claims(subject: Subject) -> Iterator[Finding]:
    """A claim that marks no rows as taken, or returns none."""
    for call in subject.notes.calls:
        claim = call.task.config.get("command")
        if call.claims and not is_template(claim) and (bare := NO_CODE.sub(" ", str(claim)).strip()):
            fault = _fault(bare)
            if fault is not None:
                yield Finding(Code.CLAIM, call.paths["command"], *fault)


def _fault(claim: str) -> tuple[str, str] | None:
    """The message and the hint."""
    if not (_CHANGES.search(_LOCKS.sub(" ", claim)) or _ROUTINE.search(claim)):
        hint = "write UPDATE ... WHERE id IN (SELECT ... LIMIT :max_rows) RETURNING *"
        return "the claim changes nothing: it yields the same rows for ever", hint
    if not _YIELDS.search(claim):
        return "the claim returns no rows", "end it with RETURNING *"
    return None
