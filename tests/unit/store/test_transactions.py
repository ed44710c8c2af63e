"""A transaction is made of tables, each of which serves one port and offers nothing besides."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from noetl.store.memory.store import MemoryTransaction
from noetl.store.memory.tables import Journal, Tables
from noetl.store.sql import SqlTransaction
from noetl.usecases.ports import Transaction

PORTS = {
    name: get_type_hints(value.fget)["return"]
    for name, value in vars(Transaction).items()
    if isinstance(value, property)
}


def _offered(one: Any) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


def _transactions() -> list[Any]:
    unused: Any = None
    return [SqlTransaction(unused, ""), MemoryTransaction(Journal(Tables(), writable=True))]


transactions = pytest.mark.parametrize("transaction", _transactions(), ids=lambda one: type(one).__name__)


@transactions
def test_a_transaction_has_a_table_for_each_port_and_no_more(transaction: Any) -> None:
    assert _offered(transaction) == {*PORTS, "now"}
    assert len(PORTS) == 12


@transactions
@pytest.mark.parametrize("port", sorted(PORTS))
def test_a_table_offers_its_port_and_no_more(transaction: Any, port: str) -> None:
    table = getattr(transaction, port)
    assert _offered(table) == _offered(PORTS[port])
    for name in _offered(table):
        mine = list(inspect.signature(getattr(type(table), name)).parameters)
        assert mine == list(inspect.signature(getattr(PORTS[port], name)).parameters), name


@transactions
def test_a_transaction_keeps_nothing_but_its_tables(transaction: Any) -> None:
    assert "__dict__" not in dir(transaction)
