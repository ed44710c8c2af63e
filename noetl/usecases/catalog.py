"""The catalog: versions of playbooks under their paths."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from noetl.dsl import Code, Compiled, Problem, compile_playbook, net_of
from noetl.dsl.problems import severity_of
from noetl.engine.prerequisites import called_by, is_fixed
from noetl.errors import NotFound, PlaybookInvalid
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.warnings import make_warning
from noetl.net.codec import digest, to_json
from noetl.net.model import Input, Net
from noetl.usecases.ports import Library, PlaybookFile, PlaybookHead, PlaybookRow, Transaction
from noetl.usecases.runtime import Runtime

#: Problems of a file that the error of a task tells.
SHOWN: Final = 5
#: What the file of a playbook is called that comes as text alone.
UNNAMED: Final = "playbook.yaml"

_REGISTER: Final = " Register it with `noetl catalog register FILE`."
#: Warnings that are kept with a version: who has more reads the first ones first.
MOST_WARNINGS: Final = 100
_CODES: Final = frozenset(map(str, Code))


def register(
    rt: Runtime,
    content: str,
    file: str = UNNAMED,
    *,
    strict: bool = False,
    check: Callable[[str], object] = lambda _path: None,
) -> PlaybookRow:
    """Keeps `content` under its `metadata.path`: a new version when it changed, else the newest
    one.

    `check` is asked about that path before anything is written, and may raise. Raises
    PlaybookInvalid with every problem of the document; `strict` makes warnings errors.
    """
    compiled = compile_playbook(content, file=file, kinds=rt.kinds, strict=strict, parse_sql=True)
    net, warnings = net_of(compiled), _warnings(compiled)
    check(net.path)
    with keeping_nets(rt) as tx:
        row = _keep(rt, tx, net, content, warnings)
        if _without_files(row.warnings) != _without_files(warnings):
            # Another version of NoETL knows more, or less.
            tx.playbooks.keep_warnings(row.path, row.version, warnings)
        return replace(row, warnings=warnings)


def warnings_of(row: PlaybookRow) -> list[JsonMap]:
    """What the compiler warned of when the version was registered, as `noetl.facts.warnings.shown`
    has it."""
    return [make_warning(source="playbook", **warning) for warning in row.warnings]


def _warnings(compiled: Compiled) -> tuple[JsonMap, ...]:
    found = (*compiled.notes, *compiled.warnings)
    kept = _as_warnings(found[:MOST_WARNINGS])
    if len(found) <= MOST_WARNINGS:
        return kept
    message = f"{len(found) - MOST_WARNINGS} more warnings: `noetl validate` shows them all"
    return (*kept, {"code": None, "message": message, "hint": None})


def _as_warnings(problems: Sequence[Problem]) -> tuple[JsonMap, ...]:
    made = [{**problem.as_json(), "hint": problem.hint or None} for problem in problems]
    return tuple({key: value for key, value in one.items() if key != "severity"} for one in made)


def _without_files(warnings: tuple[JsonMap, ...]) -> list[JsonMap]:
    return [{key: value for key, value in warning.items() if key != "file"} for warning in warnings]


@contextmanager
def keeping_nets(rt: Runtime) -> Iterator[Transaction]:
    """A transaction that may store nets. Others take them for stored once it has committed."""
    with rt.store.begin() as tx:
        yield tx
    for content_sha256, net_digest in tx.compiled.items():
        rt.compiled.put(content_sha256, net_digest)


def _keep(rt: Runtime, tx: Transaction, net: Net, content: str, warnings: tuple[JsonMap, ...]) -> PlaybookRow:
    """The newest version of the path, made of `content` unless it is that already. Where another
    transaction makes the same version, whichever commits first has it."""
    sha256 = sha256_of(content)
    net_digest = _keep_net(tx, sha256, net)
    while True:
        newest = tx.playbooks.get(net.path)
        if newest is not None and newest.content_sha256 == sha256:
            return newest
        row = PlaybookRow(
            path=net.path,
            version=newest.version + 1 if newest else 1,
            content=content,
            content_sha256=sha256,
            digest=net_digest,
            created_at=rt.clock(),
            name=net.name,
            description=net.description,
            warnings=warnings,
        )
        if tx.playbooks.add(row):
            rt.record(tx, "playbook.registered", row.path, {"version": row.version})
            return row


def sha256_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def playbook(rt: Runtime, path: str, version: int | None = None) -> PlaybookRow:
    """Raises NotFound with the nearest path."""
    with rt.store.read() as tx:
        return find(tx, path, version)


def is_known(rt: Runtime, path: str) -> bool:
    """Whether there is any version of it."""
    with rt.store.read() as tx:
        return tx.playbooks.get(path) is not None


def playbooks(rt: Runtime) -> list[PlaybookRow]:
    """The newest version of each."""
    with rt.store.read() as tx:
        return tx.playbooks.newest()


def heads(rt: Runtime) -> list[PlaybookHead]:
    """The newest version of each without its text, by path."""
    with rt.store.read() as tx:
        return tx.playbooks.heads()


def versions(rt: Runtime, path: str) -> list[PlaybookRow]:
    """All versions of one path, oldest first. Raises NotFound."""
    with rt.store.read() as tx:
        find(tx, path, None)
        return _versions(tx, path)


def find(tx: Transaction, path: str, version: int | None) -> PlaybookRow:
    """Raises NotFound with the nearest path, or with the versions that there are."""
    row = tx.playbooks.get(path, version)
    if row is not None:
        return row
    known = [one.version for one in _versions(tx, path)]
    if known:
        raise NotFound(f"Playbook {path!r} has no version {version}; there are {known[0]} to {known[-1]}.")
    hint = did_you_mean(path, (one.path for one in tx.playbooks.heads()))
    raise NotFound(f"There is no playbook {path!r} in the catalog.{hint}")


def find_to_call(rt: Runtime, tx: Transaction, path: str, version: int | None) -> PlaybookRow:
    """As `find`, but a file in the library of this process counts as the newest version: it is
    registered in `tx` where it says something else than the catalog. Raises NotFound, and
    PlaybookInvalid for a file that cannot be run."""
    newest = tx.playbooks.get(path)
    if rt.library is None or (newest is not None and version is not None):
        return find(tx, path, version)
    found = rt.library.find(path)
    if found is None and newest is None:
        # It may have been written since somebody asked first.
        found = rt.library.find(path, anew=True)
    if found is not None and (newest is None or newest.content_sha256 != sha256_of(found.content)):
        newest = _from_file(rt, tx, path, found, newest)
    if newest is None:
        raise _make_unknown(tx, rt.library, path)
    return newest if version is None else find(tx, path, version)


def look_for_called(
    tx: Transaction | None, library: Library | None, path: str, version: int | None
) -> PlaybookRow | PlaybookFile:
    """What `find_to_call` would find; nothing is registered. Without `tx` there is no store yet.
    Raises NotFound."""
    newest = None if tx is None else tx.playbooks.get(path)
    is_pinned = newest is not None and version is not None
    file = None if library is None or is_pinned else library.find(path)
    if file is not None:
        return file
    if tx is None or newest is None:
        raise _make_unknown(tx, library, path)
    return find(tx, path, version)


def _make_unknown(tx: Transaction | None, library: Library | None, path: str) -> NotFound:
    """Of a playbook that is to be called."""
    known = [] if tx is None else [one.path for one in tx.playbooks.heads()]
    files = "" if library is None else ", nor among the files below the playbook's directory"
    near = did_you_mean(path, known if library is None else [*known, *library.paths()])
    return NotFound(f"There is no playbook {path!r} in the catalog{files}.{near or _REGISTER}")


def _from_file(
    rt: Runtime, tx: Transaction, path: str, found: PlaybookFile, newest: PlaybookRow | None
) -> PlaybookRow | None:
    """The version that `found` makes; `newest` where it has got another path since the library
    looked."""
    compiled = compile_playbook(found.content, file=found.file, kinds=rt.kinds)
    net = _net_to_call(compiled)
    if net.path != path:
        return newest
    return _keep(rt, tx, net, found.content, _warnings(compiled))


def _net_to_call(compiled: Compiled) -> Net:
    """Raises PlaybookInvalid whose message has the problems themselves: it becomes the error of a
    task."""
    try:
        return net_of(compiled)
    except PlaybookInvalid as error:
        errors = [str(problem) for problem in error.problems if problem.severity == "error"]
        more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
        raise PlaybookInvalid(
            f"The playbook cannot be run: {'; '.join(errors[:SHOWN])}{more}", error.problems
        ) from None


def calls(net: Net) -> list[str]:
    """The paths of playbooks that tasks of `net` name as they are; templates among them are not
    known yet."""
    called = (called_by(task) for step in net.transitions for task in step.tasks)
    return sorted({one.name for one in called if one is not None and is_fixed(one.name)})


def _versions(tx: Transaction, path: str) -> list[PlaybookRow]:
    return sorted(tx.playbooks.versions(path), key=lambda row: row.version)


def inputs_of(rt: Runtime, row: PlaybookRow) -> tuple[Input, ...]:
    """What a version declares to take."""
    return net_of_version(rt, row).inputs


def net_of_version(rt: Runtime, row: PlaybookRow) -> Net:
    """The net of a version. Raises PlaybookInvalid."""
    with keeping_nets(rt) as tx:
        return rt.plan(tx, renew(rt, tx, row).digest).net


def renew(rt: Runtime, tx: Transaction, row: PlaybookRow) -> PlaybookRow:
    """A stored version as an execution of it begins today: with the digest of the net that this
    release makes of it, and with a word on what means something else than in the release that it
    was registered with. Raises PlaybookInvalid."""
    known = tx.compiled.get(row.content_sha256) or rt.compiled.get(row.content_sha256)
    if known is not None:
        return replace(row, digest=known)
    compiled = compile_playbook(row.content, file=_file_of(tx, row), kinds=rt.kinds, lenient=True)
    digest = _keep_net(tx, row.content_sha256, net_of(compiled))
    warnings = _renew_warnings(row, compiled)
    if warnings != row.warnings:
        tx.playbooks.keep_warnings(row.path, row.version, warnings)
    return replace(row, digest=digest, warnings=warnings)


def _file_of(tx: Transaction, row: PlaybookRow) -> str:
    """What the text was called when it was registered: the net names it, so that another name would
    make another net of it."""
    net = tx.nets.get(row.digest) or {}
    return str(net.get("file", row.path))


def _renew_warnings(row: PlaybookRow, compiled: Compiled) -> tuple[JsonMap, ...]:
    """What is kept with a version that was registered with another release, perhaps: its notes are
    those of this one, and of its warnings those stay that are given any more."""
    notes = _as_warnings(compiled.notes[:MOST_WARNINGS])
    renewed = (*notes, *(one for one in row.warnings if _is_still_given(one)))
    return row.warnings if _without_files(renewed) == _without_files(row.warnings) else renewed


def _is_still_given(warning: JsonMap) -> bool:
    code = warning["code"]
    return code is None or (code in _CODES and severity_of(code) != "note")


def _keep_net(tx: Transaction, content_sha256: str, net: Net) -> str:
    name = digest(net)
    if tx.nets.get(name) is None:
        tx.nets.put(name, to_json(net))
    tx.compiled[content_sha256] = name
    return name
