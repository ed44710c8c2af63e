"""What our transports, our consumer and our settings take from Celery and kombu beyond their
documentation.

Nobody announces a change of it. So this fails for a release whose source nobody has read (decision
60).
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from celery.app import defaults
from celery.app.amqp import AMQP
from celery.worker.consumer import Consumer
from kombu import Connection
from kombu.connection import ConnectionPool
from kombu.pools import Connections
from kombu.transport import filesystem, redis, virtual

#: The releases whose source was read for what follows.
READ = {"celery": ("5.6", "5.7"), "kombu": ("5.6", "5.7")}

#: What we override or call, and how it is called: owner, name, positional arguments, named
#: arguments.
CALLS: list[tuple[type, str, list[str], list[str]]] = [
    (virtual.Transport, "_deliver", ["message", "queue"], []),
    (virtual.Channel, "get_table", ["exchange"], []),
    (virtual.Channel, "basic_ack", ["tag", "multiple"], []),
    (virtual.QoS, "get", ["tag"], []),
    (redis.Channel, "conn_or_acquire", [], ["client"]),
    (redis.Channel, "_brpop_read", [], ["any_option"]),
    (redis.Channel, "_q_for_pri", ["queue", "priority"], []),
    (redis.Channel, "_has_queue", ["queue"], ["any_option"]),
    (redis.Channel, "close", [], []),
    (redis.Transport, "close_connection", ["connection"], []),
    (filesystem.Channel, "_put", ["queue", "payload"], ["any_option"]),
    (filesystem.Channel, "_get", ["queue"], []),
    (filesystem.Channel, "_queue_bind", ["exchange", "routing_key", "pattern", "queue"], []),
    (filesystem.Channel, "get_table", ["exchange"], []),
    (Connection, "get_transport_cls", [], []),
    (Connection, "Pool", [], ["limit"]),
    (ConnectionPool, "new", [], []),
    (Consumer, "create_task_handler", [], []),
    (Consumer, "on_decode_error", ["message", "error"], []),
    (Consumer, "on_send_event_buffered", [], []),
    (Consumer, "on_close", [], []),
    (Consumer, "stop", [], []),
]

#: What we read of instances.
ATTRIBUTES: list[tuple[type, list[str]]] = [
    (redis.Channel, ["client", "pool", "active_queues", "priority_steps", "sep", "connection_errors"]),
    (filesystem.Channel, ["data_folder_in", "data_folder_out", "control_folder"]),
    (AMQP, ["Connection"]),
]

#: What has to stand in the source of a method for our override of it to mean what it should.
WORDS: list[tuple[Callable[..., Any], list[str]]] = [
    # The answer goes through the callback of BRPOP, and a falsy one is an empty queue.
    (redis.Channel._brpop_read, ["parse_response", "'BRPOP'", "if dest__item", "raise Empty()"]),
    # The answer that is owed is read before `closed` is looked at, so that a second call closes the
    # rest.
    (redis.Channel.close, ["self._brpop_read()", "if not self.closed"]),
    # A second call goes on with the channels that are left.
    (virtual.Transport.close_connection, [".pop()", "channel.close()"]),
    # Every message comes to a channel through here.
    (redis.Channel._brpop_read, ["connection._deliver("]),
    # The pools of an app are made by the connection, and theirs by `new`.
    (Connections.create, ["connection.Pool("]),
    (Connection.create_transport, ["self.get_transport_cls()"]),
    # Where a hook is missing, a message that cannot be read ends the worker.
    (Consumer.create_task_handler, ["on_unknown_message", "strategies"]),
]


@pytest.mark.parametrize("package", READ)
def test_the_source_of_the_installed_release_was_read(package: str) -> None:
    version = importlib.metadata.version(package)
    assert ".".join(version.split(".")[:2]) in READ[package], (
        f"nobody has read what noetl.dispatch takes of {package} {version}; compare the methods in CALLS "
        "and WORDS "
        f"with those of {READ[package][-1]}, then add the release to READ and to decision 60"
    )


@pytest.mark.parametrize(
    ("owner", "name", "args", "options"), CALLS, ids=lambda one: one if isinstance(one, str) else None
)
def test_a_method_takes_the_arguments_that_ours_hands_on(
    owner: type, name: str, args: list[str], options: list[str]
) -> None:
    method = inspect.getattr_static(owner, name, None)
    assert callable(method), f"{owner.__module__}.{owner.__name__} has no method {name} any more"
    try:
        inspect.signature(method).bind("self", *args, **dict.fromkeys(options))
    except TypeError as error:
        pytest.fail(f"{owner.__module__}.{owner.__name__}.{name} is called in another way now: {error}")


@pytest.mark.parametrize(("owner", "names"), ATTRIBUTES, ids=lambda one: getattr(one, "__module__", None))
def test_an_instance_has_what_is_read_of_it(owner: type, names: list[str]) -> None:
    source = "".join(inspect.getsource(one) for one in owner.__mro__ if one is not object)
    missing = [name for name in names if not hasattr(owner, name) and f"self.{name} = " not in source]
    assert not missing, f"{owner.__module__}.{owner.__name__} has no {', '.join(missing)} any more"


@pytest.mark.parametrize(("method", "words"), WORDS, ids=lambda one: getattr(one, "__qualname__", None))
def test_a_method_still_does_what_ours_makes_use_of(method: Callable[..., Any], words: list[str]) -> None:
    source = inspect.getsource(method)
    missing = [word for word in words if word not in source]
    assert not missing, f"read {method.__qualname__} again: it has no {missing} any more"


def test_old_names_of_settings_lead_to_those_of_today() -> None:
    assert defaults._TO_NEW_KEY["CELERY_ACKS_LATE"] == "task_acks_late"
    assert "task_acks_late" in defaults.SETTING_KEYS
