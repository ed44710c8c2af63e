"""Playbooks with what became of them: for lists of them, and for a page of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from noetl.errors import NotFound, PlaybookInvalid
from noetl.history.standings import StepStanding, find_standings
from noetl.net.codec import meaning
from noetl.net.model import Net
from noetl.usecases import catalog, moment
from noetl.usecases.ports import AuditFilter, ExecutionRow, PlaybookHead, PlaybookRow, RunRow, Transaction
from noetl.usecases.runtime import Runtime

#: Executions of each playbook that a list of them shows.
RUNS: Final = 20
#: Of a playbook's executions so many of the newest are counted by version.
COUNTED: Final = 20_000
#: Entries of the audit in which those are looked for who registered versions.
_ENTRIES: Final = 1_000


@dataclass(frozen=True, slots=True)
class PlaybookEntry:
    """A playbook in a list: its newest version, its labels, its newest executions, newest first,
    and how many have not ended."""

    head: PlaybookHead
    labels: Mapping[str, str]
    runs: Sequence[RunRow]
    open: int


@dataclass(frozen=True, slots=True)
class PlaybookPage:
    """Some of the playbooks that are meant, by path; `total` counts all of them. `next` is the path
    to go on behind; None: these are the last."""

    entries: Sequence[PlaybookEntry]
    total: int
    next: str | None


def list_playbooks(
    rt: Runtime,
    may_read: Callable[[str], bool],
    text: str = "",
    after: str | None = None,
    limit: int = 100,
) -> PlaybookPage:
    """Those that `may_read` is true of and whose path, name or description has the `text`, in
    capitals or not; behind the path `after`."""
    wanted = text.casefold()
    with rt.store.read() as tx:
        heads = [one for one in tx.playbooks.heads() if may_read(one.path) and _says(one, wanted)]
        behind = heads if after is None else [one for one in heads if one.path > after]
        page = behind[:limit]
        runs, counts = tx.executions.newest_of([one.path for one in page], RUNS), tx.executions.count_open()
        entries = [
            PlaybookEntry(one, _labels(rt, tx, one), runs.get(one.path, ()), counts.get(one.path, 0))
            for one in page
        ]
    return PlaybookPage(entries, len(heads), page[-1].path if len(behind) > limit else None)


def _says(head: PlaybookHead, wanted: str) -> bool:
    return any(wanted in text.casefold() for text in (head.path, head.name, head.description))


def _labels(rt: Runtime, tx: Transaction, head: PlaybookHead) -> Mapping[str, str]:
    """Those that executions of a version get, as its net has them."""
    found = rt.labels.get(head.digest)
    if found is None:
        body = tx.nets.get(head.digest)
        found = dict((body or {}).get("labels", {}))
        rt.labels.put(head.digest, found)
    return found


# --- one playbook ---------------------------------------------------------------------------------


def steps_of_runs(rt: Runtime, rows: Sequence[ExecutionRow]) -> list[Mapping[str, StepStanding]]:
    """Of each execution where its steps are that have begun. What has been found is kept: it is
    what a version of a log comes to, which never changes."""
    with rt.store.read() as tx:
        return [_steps_of(rt, tx, row) for row in rows]


def _steps_of(rt: Runtime, tx: Transaction, row: ExecutionRow) -> Mapping[str, StepStanding]:
    key = row.execution_id, row.digest, row.head_version
    found = rt.standings.get(key)
    if found is None:
        # The log as far as the row tells of it.
        found = find_standings(moment.look(tx, row).state(row.head_version))
        rt.standings.put(key, found)
    return found


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """A version of a playbook: who registered it, where that is known, and how many of the newest
    `COUNTED` executions are of it."""

    head: PlaybookHead
    principal: str | None
    executions: int


def list_versions(rt: Runtime, path: str) -> list[VersionEntry]:
    """Newest first. Raises NotFound where there is no such playbook."""
    registered = AuditFilter(action="playbook.registered", subject=path)
    with rt.store.read() as tx:
        heads = tx.playbooks.heads_of(path)
        counts = tx.executions.count_versions(path, COUNTED)
        entries = tx.audit.find(registered, limit=_ENTRIES)
    if not heads:
        raise NotFound(f"There is no playbook {path!r} in the catalog.")
    principals = {one.detail.get("version"): one.caller.principal for one in entries}
    return [VersionEntry(one, principals.get(one.version), counts.get(one.version, 0)) for one in heads]


@dataclass(frozen=True, slots=True)
class NetChange:
    """In what one version of a playbook differs from another one: steps by name, and what else, in
    words of the document."""

    added: Sequence[str]
    removed: Sequence[str]
    changed: Sequence[str]
    others: Sequence[str]

    @property
    def is_none(self) -> bool:
        """Whether both do the same, however they are written."""
        return not (self.added or self.removed or self.changed or self.others)


#: What of a net is the steps, or says where something stands, or comes of other parts.
_NOT_OTHERS: Final = frozenset({"transitions", "file", "path"})


def compare_versions(rt: Runtime, path: str, left: int, right: int) -> NetChange | None:
    """What `right` does otherwise than `left`; None where one of them cannot be compiled any more.
    Raises NotFound."""
    rows = [catalog.playbook(rt, path, version) for version in (left, right)]
    one, other = (find_net(rt, row) for row in rows)
    return None if one is None or other is None else _compare(one, other)


def find_net(rt: Runtime, row: PlaybookRow) -> Net | None:
    """The net of a version as it was registered, which writes nothing; None where it cannot be read
    any more, nor compiled."""
    try:
        with rt.store.read() as tx:
            return rt.plan(tx, row.digest).net
    except (NotFound, ValueError):
        pass
    try:
        return catalog.net_of_version(rt, row)
    except PlaybookInvalid:
        return None


def _compare(one: Net, other: Net) -> NetChange:
    common = [name for name in other.steps if name in one.steps]
    return NetChange(
        [name for name in other.steps if name not in one.steps],
        [name for name in one.steps if name not in other.steps],
        [name for name in common if meaning(one.steps[name]) != meaning(other.steps[name])],
        [
            field.name.replace("_", " ")
            for field in fields(Net)
            if field.name not in _NOT_OTHERS
            and meaning(getattr(one, field.name)) != meaning(getattr(other, field.name))
        ],
    )
