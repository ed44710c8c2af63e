"""What every store promises of the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noetl.facts.callers import Caller
from noetl.usecases.ports import AuditEntry, AuditFilter, Store

from .given import LATER, NOW, SECOND, append, create, patched

ADA, BOB = Caller("ada", "r-1"), Caller("bob", "r-2")
ENTRIES = [
    AuditEntry(ADA, "credential.saved", "db", NOW, {"type": "http", "é": [1, None]}),
    AuditEntry(BOB, "credential.deleted", "db", NOW + SECOND),
    AuditEntry(BOB, "credentials", "7", NOW + 2 * SECOND),
    AuditEntry(Caller("bob", "r-3"), "credential_x.saved", "db", LATER),
]


def add(store: Store, *entries: AuditEntry) -> None:
    with store.begin() as tx:
        for entry in entries:
            tx.audit.add(entry)


def find(store: Store, **where: Any) -> list[AuditEntry]:
    with store.read() as tx:
        return tx.audit.find(AuditFilter(**where))


def plain(entries: list[AuditEntry]) -> list[AuditEntry]:
    """As they were before they had a number."""
    return [replace(entry, number=0) for entry in entries]


def test_entries_come_back_newest_first_with_numbers_that_grow(store: Store) -> None:
    add(store, *ENTRIES[:2])
    add(store, *ENTRIES[2:])
    found = find(store)
    assert plain(found) == ENTRIES[::-1]
    numbers = [entry.number for entry in found]
    assert numbers == sorted(set(numbers), reverse=True)
    assert numbers[-1] > 0


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({"principal": "ada"}, [0]),
        ({"principal": "nobody"}, []),
        ({"subject": "db"}, [3, 1, 0]),
        ({"request_id": "r-2"}, [2, 1]),
        # With a dot behind it, which is no pattern.
        ({"action": "credential"}, [1, 0]),
        ({"action": "credential.saved"}, [0]),
        ({"action": "credential_x"}, [3]),
        ({"action": "%"}, []),
        ({"since": NOW + SECOND}, [3, 2, 1]),
        ({"until": NOW + SECOND}, [0]),
        ({"principal": "bob", "subject": "db", "until": LATER}, [1]),
    ],
)
def test_entries_are_found_by_all_that_is_given(
    store: Store, where: dict[str, Any], wanted: list[int]
) -> None:
    add(store, *ENTRIES)
    assert plain(find(store, **where)) == [ENTRIES[index] for index in wanted]


def test_entries_are_paged(store: Store) -> None:
    add(store, *ENTRIES)
    with store.read() as tx:
        first = tx.audit.find(AuditFilter(), limit=3)
        rest = tx.audit.find(AuditFilter(), before=first[-1].number, limit=3)
    assert plain(first + rest) == ENTRIES[::-1]


def test_nothing_is_told_of_what_was_rolled_back(store: Store) -> None:
    def fail() -> None:
        with store.begin() as tx:
            tx.audit.add(ENTRIES[0])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert find(store) == []


def test_events_that_somebody_asked_for_are_told(store: Store) -> None:
    create(store)
    append(
        store,
        [
            patched("a", caller=ADA),
            patched("b"),
            # A copy was asked for in another execution.
            patched("c", caller=ADA, origin="7-1"),
            patched("d", caller=BOB),
        ],
    )
    assert plain(find(store)) == [
        AuditEntry(BOB, "ctx.patched", "100", NOW, version=4),
        AuditEntry(ADA, "ctx.patched", "100", NOW, version=1),
    ]
    with store.read() as tx:
        callers = [event.draft.caller for event in tx.events.read("100")]
    assert callers == [ADA, None, ADA, BOB]
