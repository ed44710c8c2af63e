"""Acts on several executions that somebody chose by hand: each on its own."""

from __future__ import annotations

from typing import Any

import pytest
from playbooks import playbook

from noetl.errors import BadRequest, Unavailable
from noetl.facts.outcome import ErrorInfo, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call
from noetl.testing import KINDS, Simulation
from noetl.usecases import catalog, control, inspect
from noetl.usecases.access import ANYBODY, Grant, Principal
from noetl.usecases.chosen import MOST, Acted, act_on
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start

BOOK = playbook("""
    - step: start
      tool: {kind: http, url: "{{ workload.url }}"}
      next: wait
    - step: wait
      tool: {kind: wait, signal: go}
      next: end
    - step: end
      tool: {kind: noop}
""").replace("workflow:", "workload: {url: well}\nworkflow:", 1)
ELSEWHERE = "ops/other"


class Chosen:
    """Executions that wait, or that fail where they are told to."""

    def __init__(self, **more: Any) -> None:
        self.sim = Simulation(BOOK, {"http": _call}, **more)
        self.rt = self.sim.rt
        catalog.register(self.rt, BOOK.replace("path: tests/test", f"path: {ELSEWHERE}"), "other.yaml")

    def waiting(self) -> str:
        return self._settled(self.sim.start())

    def failed(self) -> str:
        return self._settled(self.sim.start(url="broken"))

    def elsewhere(self) -> str:
        return self._settled(start(self.rt, StartRequest(ELSEWHERE)).execution_id)

    def _settled(self, execution_id: str) -> str:
        self.sim.settle()
        return execution_id

    def act(self, act: Any, *ids: str, who: Principal = ANYBODY, **how: Any) -> list[Acted]:
        acted = act_on(self.rt, who, act, ids, **how)
        self.sim.settle()
        return acted

    def status(self, execution_id: str) -> str:
        return inspect.execution(self.rt, execution_id).status


def _call(call: Call) -> Any:
    url = str(call.config["url"])
    # Nobody knows whether such a call had its effect.
    return failed(ErrorInfo("timeout", "it took too long")) if url == "broken" else {"url": url}


@pytest.fixture
def chosen() -> Chosen:
    return Chosen()


def test_each_is_cancelled_with_the_reason(chosen: Chosen) -> None:
    ids = [chosen.waiting(), chosen.waiting()]
    assert chosen.act("cancel", *ids, reason="by hand") == [Acted(one) for one in ids]
    assert [chosen.status(one) for one in ids] == ["cancelled", "cancelled"]
    (asked,) = inspect.events(chosen.rt, ids[0], types=["playbook.cancel.requested"])
    assert asked.fact.reason == "by hand"  # type: ignore[union-attr]


def test_each_is_paused_and_goes_on(chosen: Chosen) -> None:
    ids = [chosen.waiting(), chosen.waiting()]
    assert chosen.act("pause", *ids) == [Acted(one) for one in ids]
    assert [chosen.status(one) for one in ids] == ["paused", "paused"]
    assert chosen.act("resume", *ids) == [Acted(one) for one in ids]
    assert [chosen.status(one) for one in ids] == ["waiting", "waiting"]


def test_a_retry_names_what_each_became(chosen: Chosen) -> None:
    ids = [chosen.failed(), chosen.failed()]
    acted = chosen.act("retry", *ids)
    again = [inspect.execution(chosen.rt, str(one.became)) for one in acted]
    assert [(one.execution_id, one.refused) for one in acted] == [(one, "") for one in ids]
    assert [(one.source_id, one.descent) for one in again] == [(one, "retry") for one in ids]


def test_one_that_is_refused_keeps_no_other(chosen: Chosen) -> None:
    ended, first, last = chosen.failed(), chosen.waiting(), chosen.waiting()
    acted = chosen.act("cancel", first, ended, "404", "no id", last)
    assert [one.refused for one in acted] == [
        "",
        f"Execution {ended} has ended (failed).",
        "There is no execution '404'.",
        "There is no execution 'no id'.",
        "",
    ]
    assert [chosen.status(one) for one in (first, ended, last)] == ["cancelled", "failed", "cancelled"]


def test_one_that_was_chosen_twice_is_acted_on_once(chosen: Chosen) -> None:
    one, other = chosen.failed(), chosen.failed()
    acted = chosen.act("retry", one, other, one)
    assert [(found.execution_id, found.refused) for found in acted] == [(one, ""), (other, "")]


def test_effects_are_repeated_only_where_that_is_confirmed() -> None:
    chosen = Chosen(kinds={**KINDS, "http": KindInfo("http", queue="http", effects="external")})
    one = chosen.failed()
    (refused,) = chosen.act("retry", one)
    assert "would be made again that may have had effects" in refused.refused
    assert refused.became is None
    (acted,) = chosen.act("retry", one, confirmed=True)
    assert (acted.refused, inspect.execution(chosen.rt, str(acted.became)).source_id) == ("", one)


def test_only_those_are_acted_on_that_the_principal_may_operate(chosen: Chosen) -> None:
    here, there = chosen.waiting(), chosen.elsewhere()
    mine = Principal("ci", (Grant("operate", "tests/*"),))
    assert chosen.act("cancel", there, here, who=mine) == [
        Acted(there, refused=f"There is no execution {there!r}."),
        Acted(here),
    ]
    reader = Principal("ci", (Grant("read"), Grant("operate", "tests/*")))
    (acted,) = chosen.act("cancel", there, who=reader)
    assert acted.refused.startswith(f"ci has no scope `operate` for playbook '{ELSEWHERE}'")
    assert [chosen.status(one) for one in (here, there)] == ["cancelled", "waiting"]


def test_so_many_are_acted_on_at_once_and_no_more(chosen: Chosen) -> None:
    one = chosen.waiting()
    ids = [one, *(str(1000 + number) for number in range(MOST - 1))]
    with pytest.raises(BadRequest, match=f"{MOST + 1} executions were chosen; at most {MOST}"):
        chosen.act("cancel", *ids, "2000")
    assert chosen.status(one) == "waiting"
    assert len(chosen.act("cancel", *ids, one)) == MOST
    assert chosen.status(one) == "cancelled"
    assert chosen.act("cancel") == []


def test_what_does_not_answer_ends_it(chosen: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [chosen.waiting(), chosen.waiting()]
    cancel = control.cancel

    def gone(rt: Runtime, execution_id: str, reason: str) -> None:
        if execution_id == ids[1]:
            raise Unavailable("gone")
        cancel(rt, execution_id, reason)

    monkeypatch.setattr(control, "cancel", gone)
    with pytest.raises(Unavailable):
        chosen.act("cancel", *ids, "404")
    chosen.sim.settle()
    assert [chosen.status(one) for one in ids] == ["cancelled", "waiting"]
