"""What every store promises of the executions of playbooks, in short."""

from __future__ import annotations

from noetl.usecases.ports import PlaybookHead, PlaybookRow, RunRow, Store

from .given import LATER, NOW, create, execution


def _register(store: Store, *named: tuple[str, int]) -> None:
    with store.begin() as tx:
        for path, version in named:
            tx.playbooks.add(
                PlaybookRow(
                    path, version, f"text of {path}", f"s{version}", f"d{version}", NOW, path, "It does"
                )
            )


def test_the_newest_executions_of_each_playbook_are_found_newest_first(store: Store) -> None:
    _register(store, ("a", 1), ("a", 2), ("b", 1), ("c", 1), ("d", 1))
    create(
        store,
        *(execution(str(100 + n), path="a", playbook_version=1 + n % 2) for n in range(6)),
        execution("9", path="b", status="failed", ended_at=LATER),
        execution("10", path="b"),
        execution("50", path="d"),
    )
    with store.read() as tx:
        found = tx.executions.newest_of(["a", "b", "c", "e"], 3)
        assert {path: [one.execution_id for one in runs] for path, runs in found.items()} == {
            "a": ["105", "104", "103"],
            "b": ["10", "9"],
        }
        assert found["b"][1] == RunRow("9", "b", 1, "failed", NOW, LATER)
        assert tx.executions.newest_of([], 3) == {}


def test_open_executions_are_counted_by_playbook(store: Store) -> None:
    open_ones = [execution(str(n), path="a", status=one) for n, one in enumerate(_OPEN, 1)]
    ended = [execution(str(n), path="b", status=one) for n, one in enumerate(_ENDED, 20)]
    create(
        store,
        *open_ones,
        *ended,
        execution("40", path="b"),
        execution("41", path="c", imported_at=NOW),
    )
    with store.read() as tx:
        assert tx.executions.count_open() == {"a": len(_OPEN), "b": 1}


_OPEN = ("pending", "running", "waiting", "paused")
_ENDED = ("completed", "failed", "partial", "cancelled")


def test_the_versions_of_the_newest_executions_are_counted(store: Store) -> None:
    create(
        store,
        *(execution(str(n), path="a", playbook_version=1 + (n > 12)) for n in range(10, 18)),
        execution("30", path="b", playbook_version=7),
    )
    with store.read() as tx:
        assert tx.executions.count_versions("a", 100) == {1: 3, 2: 5}
        assert tx.executions.count_versions("a", 6) == {1: 1, 2: 5}
        assert tx.executions.count_versions("c", 6) == {}


def test_the_catalog_is_listed_without_texts(store: Store) -> None:
    _register(store, ("b", 1), ("a", 1), ("a", 2), ("B", 3), ("a", 10))
    with store.read() as tx:
        heads = tx.playbooks.heads()
        assert [(one.path, one.version) for one in heads] == [("B", 3), ("a", 10), ("b", 1)]
        assert heads[2] == PlaybookHead("b", 1, "b", "It does", "s1", "d1", NOW)
        assert [one.version for one in tx.playbooks.heads_of("a")] == [10, 2, 1]
        assert tx.playbooks.heads_of("c") == []
