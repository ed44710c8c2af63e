"""What steps, tasks and iterators may be called, and what `set` assigns to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.report import ProblemReport
from noetl.net.model import Scope

MAX_LENGTH = 128
# `#`, `/` and `->` separate the parts of ids.
_RESERVED = re.compile(r"[#/\x00-\x1f\x7f-\x9f\u2028\u2029]|->")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
#: Head of a target of `set` → where it is kept; heads that nothing assigns to.
SCOPES: Final[Mapping[str, Scope]] = {"ctx": "ctx", "vars": "ctx", "iter": "iter", "step": "step"}
NOT_ASSIGNABLE: Final = frozenset({"workload", "keychain", "args", "input", "env"})


def usable(report: ProblemReport, name: str, path: Path, what: str) -> bool:
    """Whether `name` may name a step or a task (`what`); adds a problem where not."""
    if not name.strip() or len(name) > MAX_LENGTH:
        message = f"the name of a {what} has {len(name):,} characters"
        report.add(Code.NAME, path, message, f"1 to {MAX_LENGTH} are allowed")
        return False
    bad = _RESERVED.search(name)
    if bad is not None:
        message = f"the name {quote_value(name)} of a {what} contains {quote_value(bad.group())}"
        report.add(Code.NAME, path, message, "#, /, -> and control characters are not allowed in names")
        return False
    return True


def readable(report: ProblemReport, name: str, path: Path, what: str = "an iterator") -> bool:
    """Whether templates can read `name`, that of `what`, bare; adds a problem where not."""
    if len(name) <= MAX_LENGTH and _IDENTIFIER.fullmatch(name):
        return True
    report.add(
        Code.NAME,
        path,
        f"templates cannot read {what} called {quote_value(name)}",
        "use letters, digits and _",
    )
    return False


def in_ctx(target: str) -> str:
    """The target of a `set` in which names without a scope are those of ctx."""
    head, dot, _ = target.partition(".")
    return target if dot and (head in SCOPES or head in NOT_ASSIGNABLE) else f"ctx.{target}"
