"""What each part of the tests costs: seconds of a processor, printed at the end of a run.

Those of a process and of the children that it has waited for: a stack counts where it ends. What a
worker spends before its first test is `importing`; the zygote and servers of the run are not in it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

#: In the output of a worker.
_KEY = "noetl_costs"


def _spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Costs:
    """By the folder of the tests, in one process or of all workers."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._counted = 0.0

    def count(self, part: str) -> None:
        """What was spent since the last time was for this part."""
        now = _spent()
        self.seconds[part] += now - self._counted  # type: ignore[assignment] # any number will do
        self._counted = now

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self.count("importing")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        self.count(_part(item.nodeid))
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = dict(self.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.seconds.update(getattr(node, "workeroutput", {}).get(_KEY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        parts = [f"{name} {spent:.0f}" for name, spent in self.seconds.most_common() if spent >= 1]
        total = sum(self.seconds.values())
        terminalreporter.write_line(f"{total:.0f} s of a processor: {', '.join(parts)}")


def _part(nodeid: str) -> str:
    """The folder below `tests`, or the first two of `tests/integration`."""
    folders = nodeid.partition("::")[0].split("/")[1:-1]
    return "/".join(folders[: 2 if folders[:1] == ["integration"] else 1]) or "tests"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(), "noetl-costs")
