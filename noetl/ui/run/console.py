"""The variables of an execution as of one version, and a console for expressions over them."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from noetl.ui.json_text import make_visible
from noetl.ui.run import variables
from noetl.ui.run.look import RunLook
from noetl.ui.values import ShownValue, show_value
from noetl.usecases.console import ConsoleAnswer, ask, load_for, names_at

#: Characters of an expression: an address has to hold it.
LONGEST: Final = 2_000
#: Names that are offered.
_MOST_NAMES: Final = 80
#: What is there beside the names that a playbook chose.
_OWN: Final = ("ctx", "workload", "keychain", "execution_id")
_HIDDEN: Final = frozenset({"vars", "job", "now"})


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What the console says to an expression: a value, or a fault, with the text around the place
    where it is, which is `marked`."""

    answer: ConsoleAnswer
    value: ShownValue | None = None
    before: str = ""
    marked: str = ""


@dataclass(frozen=True, slots=True)
class OfferedName:
    """A name that there is, and the address that asks for it."""

    name: str
    address: str


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/variables.html` shows."""
    expression = look.asked.get("expr", "").strip()
    names = names_at(look.visitor.rt, look.execution_id, look.at)
    return {
        "expression": expression,
        "longest": LONGEST,
        "answer": _ask(look, names, expression) if expression else None,
        "offered": [
            OfferedName(make_visible(one), look.here(expr=_spell(one))) for one in _find_names(names)
        ],
        **variables.gather(look),
    }


def _find_names(names: Mapping[str, Any]) -> list[str]:
    own = [one for one in _OWN if one in names]
    others = (one for one in map(str, names) if one not in own and one not in _HIDDEN)
    return [*own, *islice(others, _MOST_NAMES)]


def _spell(name: str) -> str:
    """How an expression says a name."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"ctx[{name!r}]"


def _ask(look: RunLook, names: Mapping[str, Any], expression: str) -> ShownAnswer:
    if len(expression) > LONGEST:
        fault = f"The expression has {len(expression):,} characters; at most {LONGEST:,} are evaluated here."
        return ShownAnswer(ConsoleAnswer(fault=fault))
    rt = look.visitor.rt
    load = load_for(rt, look.visitor.principal, look.execution_id)
    answer = ask(names, expression, load)
    if not answer.fault:
        return ShownAnswer(answer, show_value(answer.value, load))
    if answer.place is None:
        return ShownAnswer(answer)
    before, rest = expression[: answer.place], expression[answer.place :]
    return ShownAnswer(answer, None, make_visible(before), make_visible(rest))
