"""Results outside of the log: reads parts of them, and removes those whose time is over."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final

from noetl.errors import BadRequest, NotFound
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import (
    RESULT_REF,
    Lazy,
    Load,
    Retention,
    holds_reference,
    is_reference,
)
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime

log = logging.getLogger(__name__)

#: Children that are read at once.
_PAGE: Final = 500
#: Of the reference of a result that is kept for an execution: the store, the place (of two), and
#: the object.
_PARTS: Final = 4


def reference_of(ref: str) -> JsonMap:
    """The short reference for `noetl://...`."""
    return {"kind": RESULT_REF, "ref": ref}


def owner_of(ref: str) -> str | None:
    """The id of the execution that `noetl://<store>/<place>/<sha256>.<form>` is kept for; None
    where it is kept for none."""
    parts = ref.removeprefix("noetl://").split("/")
    kept = Retention.of_place("/".join(parts[1:-1])) if len(parts) == _PARTS else None
    return None if kept is None or not kept.execution_id else kept.execution_id


def is_value(reference: JsonMap) -> bool:
    """Whether it stands for a value, not for a file."""
    return PurePosixPath(reference["ref"]).suffix in ("", ".json")


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a list that has `length` of them."""

    items: list[Json]
    offset: int
    length: int

    @property
    def next(self) -> int | None:
        """Where the next page begins; None behind the last one."""
        end = self.offset + len(self.items)
        return end if end < self.length else None


def page(load: Load, reference: JsonMap, offset: int, limit: int) -> Page:
    """The items from `offset` on, at most `limit`, with what is inside of them. Raises what `load`
    raises, and BadRequest where the result is no list."""
    value = load(reference)
    if not isinstance(value, Lazy | list):
        raise BadRequest(f"The result {reference['ref']} is no list, so it has no rows; get it as a whole.")
    items = [json.loads_exactly("".join(json_of(item, load))) for item in value[offset : offset + limit]]
    return Page(items, offset, len(value))


def json_of(value: Json, load: Load) -> Iterator[str]:
    """The JSON text of `value` and of all that its references stand for, in pieces: what is large
    is never in memory as a whole. Raises what `load` raises."""
    if isinstance(value, Lazy):
        yield from _find_in_list(itertools.chain.from_iterable(value.pages()), load)
    elif not holds_reference(value):
        yield json.dumps(value, ensure_ascii=False)
    elif is_reference(value):
        yield from _behind(value, load)
    elif isinstance(value, Mapping):
        yield from _find_in_mapping(value, load)
    else:
        yield from _find_in_list(value, load)


def _behind(reference: JsonMap, load: Load) -> Iterator[str]:
    try:
        value = load(reference)
    except (NotFound, BadRequest):
        # Gone, or data of a tool that only looks like a reference: it speaks for itself.
        yield json.dumps(reference, ensure_ascii=False)
    else:
        yield from json_of(value, load)


def _find_in_mapping(value: JsonMap, load: Load) -> Iterator[str]:
    for number, (key, item) in enumerate(value.items()):
        yield f"{', ' if number else '{'}{json.dumps(key, ensure_ascii=False)}: "
        yield from json_of(item, load)
    yield "}"


def _find_in_list(items: Iterator[Json] | Sequence[Json], load: Load) -> Iterator[str]:
    before = "["
    for item in items:
        yield before
        yield from json_of(item, load)
        before = ", "
    yield "[]" if before == "[" else "]"


@dataclass(frozen=True, slots=True)
class Collected:
    """What `collect` did, or would do: `removed` are places, `objects` what lay in them, `logs`
    counts executions whose printed output goes, `secrets` those that lose what they were given.
    `unknown` counts places of executions that are not in this database; they are kept."""

    removed: tuple[str, ...] = ()
    objects: int = 0
    kept: int = 0
    unknown: int = 0
    logs: int = 0
    secrets: int = 0


def collect(rt: Runtime, now: datetime, *, dry_run: bool = False) -> Collected:
    """Removes the places of results (`Keep.place`) whose time is over.

    `until/<hour>` goes when the hour is over, `running/<id>` when that execution has ended,
    `executions/<id>` when `limits.results_keep_s` seconds have passed since all executions of its
    family had ended: those that it called, and those that called it, and those that run one of them
    again or are forks of it, or have taken such results from the cache, since they name the same
    results; what they printed, and the secrets that they were given, go with it. Those of a
    specimen go so many seconds after its import.
    `permanent` stays. So does what belongs to an execution that this database does not
    know: another one may share the store. An ended execution takes no report and calls no other, so
    nothing that is removed can be referred to by one that still runs.
    """
    verdicts = _Verdicts(rt, now)
    removed: list[str] = []
    objects = kept = unknown = 0
    for place in list(rt.results.places()):
        match verdicts.of(place):
            case True if not (dry_run or _let_go(rt, place, now)):
                kept += 1
            case True:
                objects += 0 if dry_run else rt.results.remove(place)
                removed.append(place)
            case False:
                kept += 1
            case None:
                unknown += 1
    logs, secrets = (
        _clear(rt, verdicts, one, dry_run=dry_run) if rt.limits.results_keep_s else 0
        for one in (_LOGS, _SECRETS)
    )
    if (removed or logs or secrets) and not dry_run:
        log.info(
            "%d results in %d places, %d logs and the secrets of %d executions were removed",
            *(objects, len(removed), logs, secrets),
        )
    return Collected(tuple(removed), objects, kept, unknown, logs, secrets)


def _let_go(rt: Runtime, place: str, now: datetime) -> bool:
    """Whether nobody has taken results of the place from the cache meanwhile, which from now on has
    none of them."""
    kind, _, name = place.partition("/")
    if kind != "executions":
        return True
    with rt.store.begin() as tx:
        if not tx.cached.remove_of(name):
            return True
    return bool(_Verdicts(rt, now).of(place))


@dataclass(frozen=True, slots=True)
class _Left:
    """Rows that executions leave, and that are kept as long as their results: a page of the ids of
    those that left some, and the end of what one left."""

    find: Callable[[Transaction, str | None], list[str]]
    remove: Callable[[Transaction, str], object]


_LOGS: Final = _Left(
    lambda tx, after: tx.logs.execution_ids(after, _PAGE), lambda tx, one: tx.logs.delete(one)
)
#: What was given to an execution lasts as long as anything that it may be run again for.
_SECRETS: Final = _Left(
    lambda tx, after: tx.credentials.lineage_ids(after, _PAGE),
    lambda tx, one: tx.credentials.delete_of(one, "lineage"),
)


def _clear(rt: Runtime, verdicts: _Verdicts, left: _Left, *, dry_run: bool) -> int:
    """Removes what executions left whose results may go; of how many."""
    count, after = 0, None
    while ids := _read_page(rt, left, after):
        after = ids[-1]
        for execution_id in ids:
            if verdicts.of(f"executions/{execution_id}"):
                count += 1
                if not dry_run:
                    with rt.store.begin() as tx:
                        left.remove(tx, execution_id)
    return count


def _read_page(rt: Runtime, left: _Left, after: str | None) -> list[str]:
    with rt.store.read() as tx:
        return left.find(tx, after)


class _Verdicts:
    def __init__(self, rt: Runtime, now: datetime) -> None:
        self._rt = rt
        self._now = now
        self._families: dict[str, datetime | None] = {}

    def of(self, place: str) -> bool | None:
        """None: it is not known here."""
        kind, _, name = place.partition("/")
        match kind:
            case "until":
                return self._now >= datetime.fromtimestamp(int(name) * 3600, UTC)
            case "running":
                return self._of_execution(name, family=False)
            case "executions":
                return self._of_execution(name, family=True)
            case _:
                return False

    def _of_execution(self, execution_id: str, *, family: bool) -> bool | None:
        with self._rt.store.read() as tx:
            row = tx.executions.get(execution_id)
            if row is None:
                return None
            if not family and row.imported_at is None:
                return row.status in ENDED and not row.waits_for_retry
            keep_s = self._rt.limits.results_keep_s
            if not keep_s:
                return False
            ended = row.imported_at or self._find_end(tx, row)
        return ended is not None and ended + timedelta(seconds=keep_s) <= self._now

    def _find_end(self, tx: Transaction, row: ExecutionRow) -> datetime | None:
        """When the last of its family ended; None while one runs."""
        row = _root(tx, row)
        if row.execution_id not in self._families:
            self._families[row.execution_id] = _last_end(tx, row)
        return self._families[row.execution_id]


def _root(tx: Transaction, row: ExecutionRow) -> ExecutionRow:
    """The one from which its family descends."""
    while (above := row.parent_id or row.source_id) and (other := tx.executions.get(above)) is not None:
        row = other
    return row


def _users(tx: Transaction, execution_id: str) -> Iterator[ExecutionRow]:
    """The families that have taken results of the execution from the cache."""
    for user in tx.cached.users(execution_id):
        if (row := tx.executions.get(user)) is not None:
            yield _root(tx, row)


def _last_end(tx: Transaction, root: ExecutionRow) -> datetime | None:
    last = datetime.min.replace(tzinfo=UTC)
    pending, met = [root], {root.execution_id}
    while pending:
        row = pending.pop()
        if row.status not in ENDED or row.waits_for_retry or row.ended_at is None:
            return None
        last = max(last, row.ended_at)
        own = row.execution_id
        below = itertools.chain(_pages(tx, parent=own), _pages(tx, source=own), _users(tx, own))
        pending += (other for other in below if other.imported_at is None and other.execution_id not in met)
        met.update(other.execution_id for other in pending)
    return last


def _pages(
    tx: Transaction, *, parent: str | None = None, source: str | None = None
) -> Iterator[ExecutionRow]:
    """All that `executions.find` finds."""
    before: str | None = None
    while rows := tx.executions.find(parent=parent, source=source, before=before, limit=_PAGE):
        yield from rows
        before = rows[-1].execution_id
