"""Looks at the slots of all executions behind each transaction: never more of a key than its limit,
and all that somebody asked for or nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from noetl.facts.limits import SlotRow
from noetl.usecases.ports import Store, Transaction


@dataclass
class SlotWatch:
    """What was wrong at any moment, in sentences. Pass `over` as the `wrap` of a World."""

    broken: list[str] = field(default_factory=list)

    def over(self, store: Store) -> Store:
        return _WatchedStore(store, self)

    def look(self, rows: list[SlotRow]) -> None:
        held = [row for row in rows if row.per_s is None]
        for said in (*_too_many(held), *_in_part(held)):
            if said not in self.broken:
                self.broken.append(said)


def _too_many(rows: list[SlotRow]) -> Iterator[str]:
    taken = Counter(row.key for row in rows if row.granted_at is not None and row.under is None)
    limits = {row.key: row.limit for row in rows}
    for key, count in taken.items():
        if count > limits[key]:
            yield f"{count} slots of {key} are taken, {limits[key]} allowed"


def _in_part(rows: list[SlotRow]) -> Iterator[str]:
    by_holder: dict[str, set[bool]] = defaultdict(set)
    for row in rows:
        by_holder[row.holder].add(row.granted_at is not None)
    yield from (f"{holder} has some of its slots" for holder, has in by_holder.items() if len(has) > 1)


class _WatchedStore(Store):
    def __init__(self, inner: Store, watch: SlotWatch) -> None:
        self._inner = inner
        self._watch = watch

    def begin(self) -> AbstractContextManager[Transaction]:
        return self._watched(self._inner.begin())

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        return self._watched(self._inner.begin_async_commit())

    def read(self) -> AbstractContextManager[Transaction]:
        return self._inner.read()

    def close(self) -> None:
        self._inner.close()

    @contextmanager
    def _watched(self, opened: AbstractContextManager[Transaction]) -> Iterator[Transaction]:
        with opened as tx:
            yield tx
        with self._inner.read() as tx:
            self._watch.look(tx.slots.of_key())
