"""A transaction is put together from one class for each concern."""

from __future__ import annotations

from collections import Counter

import pytest

from noetl.store.memory import MemoryTransaction
from noetl.store.sql import SqlTransaction
from noetl.usecases.ports import Transaction

transactions = pytest.mark.parametrize("transaction", [SqlTransaction, MemoryTransaction])


def _own_names(concern: type) -> list[str]:
    return [name for name in vars(concern) if not name.startswith("__")]


@transactions
def test_no_concern_hides_a_name_of_another(transaction: type) -> None:
    names = Counter(name for concern in transaction.__mro__ for name in _own_names(concern))
    assert [name for name, times in names.items() if times > 1] == []


@transactions
def test_a_transaction_offers_its_port_and_no_more(transaction: type) -> None:
    offered = {name for name in dir(transaction) if not name.startswith("_")}
    assert offered == {name for name in dir(Transaction) if not name.startswith("_")}


@transactions
def test_a_transaction_keeps_nothing_but_what_its_concerns_share(transaction: type) -> None:
    assert "__dict__" not in dir(transaction)
