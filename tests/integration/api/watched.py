"""What is done as soon as somebody waits for an execution, and how long that may wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from noetl.usecases import waiting
from noetl.usecases.ports import Store, Watch


class Watching:
    """Whoever waits for executions of a store is noted here, and `meanwhile` is called, by another
    thread, the first time; time stands still for requests that wait, but for waits that nobody ends
    (`lets_time_pass`), which are over at once."""

    def __init__(self, store: Store, patch: pytest.MonkeyPatch) -> None:
        self._watch = store.watch
        self._now = 0.0
        self._threads: list[threading.Thread] = []
        self.meanwhile: Callable[[], object] | None = None
        self.lets_time_pass = False
        #: How long each wait might have taken, in seconds.
        self.granted: list[float] = []
        patch.setattr(store, "watch", self._watched)
        patch.setattr(waiting, "monotonic", lambda: self._now)

    @contextmanager
    def _watched(self, *execution_ids: str) -> Iterator[Watch]:
        with self._watch(*execution_ids) as watch:
            yield _Noted(self, watch)

    def begin(self, watch: Watch, seconds: float) -> bool:
        self.granted.append(seconds)
        work, self.meanwhile = self.meanwhile, None
        if work is not None:
            self._threads.append(threading.Thread(target=work))
            self._threads[-1].start()
        if self.lets_time_pass:
            self._now += seconds
            return False
        return watch.wait(seconds)

    def end(self) -> None:
        """Raises AssertionError where nobody has waited who should have."""
        for one in self._threads:
            one.join()
        assert self.meanwhile is None, "nobody has waited"


class _Noted:
    """A watch whose waits are noted."""

    def __init__(self, watching: Watching, watch: Watch) -> None:
        self._watching, self._watch = watching, watch

    @property
    def woken_at(self) -> float:
        return self._watch.woken_at

    def wait(self, seconds: float) -> bool:
        return self._watching.begin(self._watch, seconds)
