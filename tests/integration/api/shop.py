"""A shop: the playbook that tests of an execution's tabs run, and how they look at its page."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.access import Grant, Principal
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.approvals import answer
from noetl.usecases.signals import SignalRequest, send_signal

from .browsing import Page

SHOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shop, path: shop/orders}
workload: {items: [1, 2, 3], said: "<b>bold</b>"}
ctx: {total: 0}
workflow:
  # The first one.
  - step: load
    loop: {in: "{{ items }}", iterator: item}
    tool: {kind: python, input: {item: "{{ item }}", said: "{{ said }}"}, code: "result = [item, said]"}
    set: {ctx.total: "{{ result | length }}"}
    next: fails

  - step: fails
    tool: {kind: python, code: "raise ValueError('no <i>money</i>')"}
    next: {arcs: [{step: wait, when: "{{ event.name == 'step.failed' }}"}]}
  - step: wait
    tool: {kind: wait, any: {paid: {signal: {name: paid}}, late: {timer: 2h}}}
    next: sign
  - step: sign
    tool: {kind: wait, approval: {message: "Pay?", form: {amount: integer}}}
    next: call
  - step: call
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: playbook, path: shop/child, payload: {n: "{{ n }}"}}
"""
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: shop/child}
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: wait, signal: go}
"""
ADA = Principal("ada", (Grant("read"), Grant("operate"), Grant("run"), Grant("approve")))


def open_shop() -> Simulation:
    """It has the playbook that it calls."""
    sim = Simulation(SHOP)
    catalog.register(sim.rt, CHILD)
    return sim


def start_run(sim: Simulation) -> str:
    """An execution that waits for a signal."""
    run = sim.start()
    sim.settle()
    return run


def look(browser: FlaskClient, execution: str, tab: str, **query: Any) -> str:
    found = browser.get(f"/executions/{execution}", query_string={"tab": tab, **query})
    assert found.status_code == 200, Page(found.text).text
    return str(found.text)


def follow(browser: FlaskClient, page: str, word: str) -> str:
    """What the link of that word leads to."""
    (where,) = re.findall(rf'<a[^>]* href="([^"]*)"[^>]*>{word}</a>', page) or [""]
    assert where, f"there is no link {word!r}"
    return str(browser.get(unescape(where)).text)


def has_link(page: str, word: str) -> bool:
    return re.search(rf">{word}</a>", page) is not None


def pay(sim: Simulation, run: str, payload: Any = None) -> None:
    send_signal(sim.rt, run, SignalRequest("paid", payload=payload))
    sim.settle()


def approve(sim: Simulation, run: str) -> None:
    request = ApprovalRequest("approve", reason="it's <i>fine</i>", values={"amount": 7})
    answer(sim.rt, ADA, run, request)
    sim.settle()


def versions(page: str) -> list[int]:
    """Those of the events that the page shows."""
    return [int(number) for number in re.findall(r'<tr id="v(\d+)"', page)]
