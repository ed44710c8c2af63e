"""The catalog remembers only what is in the database."""

from __future__ import annotations

from contextlib import suppress

from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.ports import PlaybookRow

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: tests/{name}}}
workflow:
  - step: start
    tool: {{kind: noop}}
"""


def test_a_net_whose_transaction_came_to_nothing_is_kept_by_the_next_one() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    row = PlaybookRow("tests/new", 1, PLAYBOOK.format(name="new"), "sha", "", sim.now)
    with suppress(ZeroDivisionError), catalog.keeping_nets(sim.rt) as tx:
        catalog.net_digest(sim.rt, tx, row)
        _ = 1 / 0
    with sim.rt.store.begin() as tx:
        digest = catalog.net_digest(sim.rt, tx, row)
    with sim.rt.store.read() as tx:
        assert tx.net(digest) is not None


def test_a_playbook_whose_net_is_stored_is_not_compiled_again() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    digests = []
    for _ in range(3):
        with sim.rt.store.begin() as tx:
            row = catalog.find(tx, "tests/known", None)
            digests.append(catalog.net_digest(sim.rt, tx, row))
    assert {*digests} == {sim.rt.compiled.get(row.content_sha256)}
