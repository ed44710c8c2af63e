"""Inputs that a built-in hides: templates that read them get something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noetl.dsl.checks.reading import EVERYWHERE, Chain
from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import Arc, DocumentPart, Step, Tool
from noetl.dsl.document.texts import texts_in
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.expressions import names_used, path_text
from noetl.facts.json import Json

#: What `job` itself has: whoever reads anything else means the input.
_OF_JOB: Final = frozenset({"uuid", "execution_id"})


def check_hidden_inputs(subject: Subject) -> Iterator[Finding]:
    """Inputs of steps, arcs and tasks that have the name of a built-in which their step reads, as
    if it were the input."""
    read = _chains_by_step(subject)
    for part, path in subject.parts:
        step = _reader(subject, part, path)
        if step is None:
            continue
        for at, name, value in _inputs(part, path):
            chain = next((one for one in sorted(read.get(step, ())) if _means(one, name, value)), None)
            if chain is not None:
                who = f"templates of step {quote_value(step)} that read {quote_value(path_text(chain))}"
                yield Finding(
                    Code.BUILT_IN,
                    at,
                    f"{who} get the built-in, not this input",
                    f"call it otherwise, or read args.{path_text(chain)}",
                    at_key=True,
                )


def _chains_by_step(subject: Subject) -> Mapping[str | None, set[Chain]]:
    """The chains that templates of each step read."""
    found: dict[str | None, set[Chain]] = {}
    for use in subject.notes.uses:
        for _, text in texts_in(use.template, use.path, guard=use.guard):
            found.setdefault(use.step, set()).update(names_used(text, guard=use.guard))
    return found


def _reader(subject: Subject, part: DocumentPart, path: Path) -> str | None:
    """The step that reads the inputs which `part` gives."""
    match part:
        case Step() | Arc():
            return part.step
        case Tool() if path[0] == "workflow" and isinstance(path[1], int):
            return (subject.document.workflow or [])[path[1]].step
        case _:
            return None


def _inputs(part: DocumentPart, path: Path) -> Iterator[tuple[Path, str, Json]]:
    """Those with the name of a built-in, and where they stand."""
    if isinstance(part, Step | Arc | Tool):
        for key, given in (("args", part.args), ("input", part.input)):
            for name in EVERYWHERE & (given or {}).keys():
                yield (*path, key, name), name, (given or {})[name]


def _means(chain: Chain, name: str, value: Json) -> bool:
    """Whether who reads `chain` means the input, and not the built-in, which `value` may be."""
    if chain[0] != name or _is_itself(name, value):
        return False
    if len(chain) == 1 or (name == "job" and chain[1] not in _OF_JOB):
        return True
    return isinstance(value, dict) and chain[1] in value


def _is_itself(name: str, value: Json) -> bool:
    return isinstance(value, str) and names_used(value) == {(name,)}
