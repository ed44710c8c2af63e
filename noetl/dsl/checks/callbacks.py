"""Addresses of tasks: templates that name one that there is not, and tasks whose address nobody is
handed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final

from noetl import expressions
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall, TemplateUse
from noetl.dsl.document.texts import texts_in
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.net.callbacks import CALLBACK, has_address

#: `callback.answer.url`.
_NAME, _FIELD = 1, 2
#: What an address has.
_URL: Final = "url"
#: The parts of a step that no task renders.
_AROUND: Final = frozenset({"input", "args", "loop", "set", "next", "when"})

_Chain = tuple[str, ...]


def check_addresses(subject: Subject) -> Iterator[Finding]:
    """`callback.<task>.url`, in steps in which tasks wait for a call of theirs."""
    waiting: dict[str, list[CompiledCall]] = {}
    for call in subject.notes.calls:
        if has_address(call.task):
            waiting.setdefault(call.step, []).append(call)
    if not waiting:
        return
    names = {step: [call.task.name for call in calls] for step, calls in waiting.items()}
    handed: set[tuple[str, str | None]] = set()
    for use in subject.notes.uses:
        if use.step in waiting and reads_addresses(use.path):
            for path, text, chain in _chains(use):
                handed.add((use.step, chain[_NAME] if len(chain) > _NAME else None))
                yield from _check_chain(subject, use, path, text, chain, names[use.step])
    for call in subject.notes.calls:
        yield from _check_call(call, waiting, handed)


def _check_call(
    call: CompiledCall, waiting: Mapping[str, list[CompiledCall]], handed: Set[tuple[str, str | None]]
) -> Iterator[Finding]:
    step, name = call.step, call.task.name
    if call in waiting.get(step, ()) and handed.isdisjoint({(step, None), (step, name)}):
        yield _handed_to_nobody(call)
    if step in waiting and call.task.cache is not None and _hands_over(call):
        yield _cached(call)


def reads_addresses(path: Path) -> bool:
    """Whether a task renders what stands at `path`, so that `callback` is there."""
    return path[:1] == ("workbook",) or (path[2:3] != () and path[2] not in _AROUND)


def _chains(use: TemplateUse) -> Iterator[tuple[Path, str, _Chain]]:
    for path, text in texts_in(use.template, use.path, guard=use.guard):
        if CALLBACK in text and not expressions.check(text, guard=use.guard):
            for chain in sorted(expressions.names_used(text, guard=use.guard)):
                if chain[0] == CALLBACK:
                    yield path, text, chain


def _check_chain(
    subject: Subject, use: TemplateUse, path: Path, text: str, chain: _Chain, names: list[str]
) -> Iterator[Finding]:
    place = expressions.place_of_name(text, chain, guard=use.guard)
    within = None if place is None else (text, place)
    if len(chain) > _NAME and chain[_NAME] not in names:
        yield Finding(
            Code.UNKNOWN_TASK,
            path,
            f"no task {quote_value(chain[_NAME])} of this step waits for a call of its address",
            subject.names.suggest(chain[_NAME], names, f"known here: {', '.join(names)}"),
            within,
        )
    elif len(chain) > _FIELD and chain[_FIELD] != _URL:
        yield Finding(
            Code.UNDEFINED,
            path,
            f"an address has no {quote_value(chain[_FIELD])}",
            f"write {CALLBACK}.{chain[_NAME]}.{_URL}",
            within,
        )


def _hands_over(call: CompiledCall) -> bool:
    rendered = {key: value for key, value in call.task.config.items() if key not in call.task.verbatim}
    return any(chain[0] == CALLBACK for chain in expressions.names_used([rendered, call.task.args]))


def _cached(call: CompiledCall) -> Finding:
    return Finding(
        Code.MISPLACED,
        call.path,
        f"task {quote_value(call.task.name)} hands over an address, which no cached result does",
        "remove cache:",
    )


def _handed_to_nobody(call: CompiledCall) -> Finding:
    name = call.task.name
    return Finding(
        Code.IGNORED,
        call.paths.get(CALLBACK, call.path),
        f"nobody can call the address of task {quote_value(name)}: nothing in its step reads it",
        f'hand it over in a task before: "{{{{ {CALLBACK}.{name}.{_URL} }}}}"',
        at_key=CALLBACK in call.paths,
    )
