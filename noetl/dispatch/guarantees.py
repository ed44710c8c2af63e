"""Which settings of Celery keep a promise of NoETL, and the values that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_JSON: Final = ("json", "application/json")


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A setting that must not have another value than it `needs`, and what that value `keeps`."""

    setting: str
    needs: str
    holds: Callable[[Any], bool]
    keeps: str
    #: The key of a setting that is a mapping.
    key: str = ""

    @property
    def name(self) -> str:
        """The setting as people write it."""
        return f'{self.setting}["{self.key}"]' if self.key else self.setting

    def value(self, config: Mapping[str, Any]) -> Any:
        """What `config` says. None where it says nothing."""
        found = config.get(self.setting)
        return found.get(self.key) if self.key and isinstance(found, Mapping) else found


def _exactly(setting: str, value: Any, keeps: str, key: str = "") -> Guarantee:
    return Guarantee(setting, repr(value), lambda given: bool(given == value), keeps, key)


def _unset(setting: str, keeps: str) -> Guarantee:
    return Guarantee(setting, "None", lambda given: given is None, keeps)


def _only_json(setting: str, needs: str, *, optional: bool = False) -> Guarantee:
    def holds(given: Any) -> bool:
        if isinstance(given, list | tuple | set | frozenset):
            return bool(given) and all(one in _JSON for one in given)
        return optional and given is None

    return Guarantee(setting, needs, holds, "nothing from the broker is unpickled or otherwise executed")


_GIVEN_BACK = (
    "a message whose worker or child dies is given back; the claim in the log keeps that from doubling work"
)
_ONE_AT_A_TIME = "short work does not wait behind a long task in the same worker"
_UNPICKLED = "every process can read what every other one sends, and nothing is unpickled"
_DEADLINES = "a task ends by its own deadline, which is recorded, and not by a child that is killed"
_PRIORITIES = (
    "lanes of loops give way to everything else, and all processes name the same lists at the broker"
)

#: Settings whose values do not depend on others.
GUARANTEES: Final = (
    _exactly("task_acks_late", True, _GIVEN_BACK),
    _exactly("task_reject_on_worker_lost", True, _GIVEN_BACK),
    _exactly("worker_prefetch_multiplier", 1, _ONE_AT_A_TIME),
    _exactly("worker_disable_prefetch", True, _ONE_AT_A_TIME),
    _exactly("task_serializer", "json", _UNPICKLED),
    _exactly("result_serializer", "json", _UNPICKLED),
    _exactly("event_serializer", "json", _UNPICKLED),
    _only_json("accept_content", "['json']"),
    _only_json("result_accept_content", "None or ['json']", optional=True),
    _exactly("task_protocol", 2, "messages are read by their headers before Celery sees them"),
    _exactly("task_always_eager", False, "work is done by workers, and not by its sender"),
    _exactly("task_ignore_result", True, "the backend holds the lanes of running loops and nothing else"),
    _exactly("task_create_missing_queues", True, "queues that only a playbook names are there"),
    _unset("task_annotations", "no task loses one of these settings by itself"),
    _unset("task_time_limit", _DEADLINES),
    _unset("task_soft_time_limit", _DEADLINES),
    _exactly(
        "worker_consumer",
        "noetl.dispatch.consumer:Consumer",
        "anything that is not a message of NoETL is refused and kept",
    ),
    _exactly(
        "worker_cancel_long_running_tasks_on_connection_loss",
        False,
        "work goes on while the broker is away; its report goes to the database",
    ),
    _exactly("broker_transport_options", "priority", _PRIORITIES, "queue_order_strategy"),
    _exactly("broker_transport_options", list(range(10)), _PRIORITIES, "priority_steps"),
    _exactly(
        "result_backend_transport_options",
        True,
        "the header of a chord is counted in one place",
        "result_chord_ordered",
    ),
)


def visibility(longest_task_s: float) -> Guarantee:
    """The broker hands out a message again after its visibility timeout: not while the task may
    still run."""
    return Guarantee(
        "broker_transport_options",
        f"more than {longest_task_s:g} seconds (NOETL_TASK_TIMEOUT_S)",
        lambda given: isinstance(given, int | float) and given > longest_task_s,
        "Redis does not hand out a task that still runs",
        "visibility_timeout",
    )


def contradictions(config: Mapping[str, Any], longest_task_s: float) -> Iterator[Guarantee]:
    """The guarantees that `config` does not keep."""
    for one in (*GUARANTEES, visibility(longest_task_s)):
        if (one.key or one.setting in config) and not one.holds(one.value(config)):
            yield one
