"""What of a tool's configuration its kind cannot take, as far as it is known before the tool
runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from pydantic_core import ErrorDetails

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.notes import CompiledCall
from noetl.dsl.document.texts import holds_template
from noetl.dsl.document.validation import by_place, fault_of, real_path
from noetl.dsl.problems import Code, Finding, Path, shown
from noetl.dsl.read.origins import value_at
from noetl.net.model import KindInfo, Template

_Faults = Mapping[Path, list[ErrorDetails]]


def check_values(subject: Subject) -> Iterator[Finding]:
    """Values that a kind cannot take, of those that are no templates."""
    for call in subject.notes.calls:
        if call.step or call.claims:  # what the workbook says may lack what its callers say
            yield from _of_call(subject, call)


def _of_call(subject: Subject, call: CompiledCall) -> Iterator[Finding]:
    config = call.task.config
    rendered = {
        key for key, value in config.items() if key not in call.task.verbatim and holds_template(value)
    }
    faults: dict[Path, list[ErrorDetails]] = {}
    for error in call.kind.faults(config):
        path = real_path(error["loc"], config)
        # What concerns several keys may be well once they are rendered.
        if path or not rendered or error["type"] == "missing":
            faults.setdefault(path, []).append(error)
    faults = {path: errors for path, errors in faults.items() if not _is_around(path, faults)}
    unknown = _unknown(faults, config, rendered)
    for path, errors in faults.items():
        if not path or path[0] not in unknown or _is_sure(errors):
            at = (*call.paths[str(path[0])], *path[1:]) if path else call.path
            yield from _findings(subject, call.kind, at, errors, config)


def _unknown(faults: _Faults, config: Mapping[str, Template], rendered: Collection[str]) -> set[str | int]:
    """The keys of which templates are at fault. They may turn out to fit, and to be of another form
    than what is told of the rest under that key."""
    return {
        path[0]
        for path, errors in faults.items()
        if path and path[0] in rendered and holds_template(value_at(config, path)) and not _is_sure(errors)
    }


def _is_sure(errors: Iterable[ErrorDetails]) -> bool:
    """Whether no template can mend this: a key that no mapping there has."""
    return any(
        error["type"] == "extra_forbidden"
        and error["loc"][-1] not in (error.get("ctx") or {}).get("known", ())
        for error in errors
    )


def _is_around(path: Path, others: Iterable[Path]) -> bool:
    """Whether a part of what stands at `path` is at fault: of the forms that it may have this is
    the likelier one."""
    return bool(path) and any(other[: len(path)] == path and other != path for other in others)


def _findings(
    subject: Subject, kind: KindInfo, at: Path, errors: list[ErrorDetails], config: Mapping[str, Template]
) -> Iterator[Finding]:
    first = errors[0]
    name = str(first["loc"][-1]) if first["loc"] else ""
    match first["type"]:
        case "missing":
            if all(first["loc"] != (key,) for group in kind.required for key in group):
                message = f"{kind.kind} needs {shown(name)} here"
                yield Finding(Code.MISSING, at, message, f"add {name}:", lacks=name)
        case "extra_forbidden":
            message = f"the key {shown(name)} means nothing here to {kind.kind}"
            known = (first.get("ctx") or {}).get("known", ())
            hint = subject.names.suggest(name, known, "remove it")
            yield Finding(Code.VALUE, at, message, hint, at_key=True)
        case "value_error":
            reason = first["msg"].removeprefix("Value error, ")
            yield Finding(Code.VALUE, at, f"{kind.kind} cannot take this: {reason}")
        case _:
            for path, fault in by_place(errors, config).items():
                value = value_at(config, path)
                yield fault_of(at, fault, value, subject.names, may_be_secret=True)
