"""kombu's transports for queues into which others may write: anything that is not a message is
refused and skipped.

kombu reads what stands in a list or in a file as its own envelope; anything else ends the worker
that took it.

Some of what is overridden here is private to kombu: see decision 60. Of another release of kombu
read what `tests/integration/test_celery_internals.py` lists before it is allowed there.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

import kombu
import kombu.connection
from celery.app.amqp import AMQP
from kombu.exceptions import ChannelError
from kombu.transport import filesystem, memory, redis, virtual
from kombu.utils.json import dumps, loads
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from noetl.dispatch.envelope import LARGEST, find_flaw_in_bytes, find_flaw_in_envelope
from noetl.dispatch.refused import refuse


class Careful:
    """A transport that delivers envelopes only."""

    def _deliver(self, message: Any, queue: str | None) -> None:
        flaw = find_flaw_in_envelope(message)
        if flaw is None:
            super()._deliver(message, queue)  # type: ignore[misc]
        else:
            refuse(queue, flaw, message)


class MessageLine(Queue[Any]):
    """Messages of one queue: those whose place in line is smaller first, then the older ones."""

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - the library's signature
        self.queue: Any = []
        self._numbers = itertools.count()

    def _put(self, item: Any) -> None:
        heapq.heappush(self.queue, (place_of(item), next(self._numbers), item))

    def _get(self) -> Any:
        return heapq.heappop(self.queue)[-1]


def place_of(message: Any) -> int:
    """The place in line that a message asks for: from 0, which comes first, to 9."""
    properties = message.get("properties") if isinstance(message, Mapping) else None
    given = properties.get("priority") if isinstance(properties, Mapping) else None
    return min(max(given, 0), 9) if isinstance(given, int) else 0


class MemoryChannel(memory.Channel):
    """Queues in which messages have places."""

    queues: dict[str, Queue[Any]]

    def _new_queue(self, queue: str, **_: Any) -> None:
        self._queue_for(queue)

    def _queue_for(self, queue: str) -> Queue[Any]:
        return self.queues.setdefault(queue, MessageLine())


class MemoryTransport(Careful, memory.Transport):
    """Queues inside of one process."""

    Channel = MemoryChannel


# --- Redis ---


class RedisChannel(redis.Channel):
    """Skips anything that is not JSON, and keeps its client: kombu makes one for each command,
    which costs as much as the command."""

    connection_errors: tuple[type[Exception], ...]
    _kept: Any = None

    @contextlib.contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        if self.connection is None:
            # A producer may still hold a channel that kombu closed with a broken connection when it
            # declared a queue for it: it connects and tries again if it learns so.
            raise RedisConnectionError("The channel was closed with its connection")
        # A client is a view of its pool, and the pool is another one after a lost connection.
        if client is None and (self._kept is None or self._kept.connection_pool is not self.pool):
            with super().conn_or_acquire() as self._kept:
                pass
        yield self._kept if client is None else client

    def _brpop_read(self, **options: Any) -> Any:
        # The one place in which the entry and the name of its list are both to be had.
        self.client.set_response_callback("BRPOP", partial(_check_entry, self.sep))
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE") or not self._clear():
                raise
            raise Empty from error

    def _clear(self) -> int:
        """Renames keys of queues that are not lists; returns how many there were."""
        to_key = self._q_for_pri  # type: ignore[attr-defined]
        keys = {to_key(queue, step): queue for queue in self.active_queues for step in self.priority_steps}
        cleared = 0
        with self.conn_or_acquire() as client:
            for key, queue in keys.items():
                kind = client.type(key).decode()
                if kind not in ("list", "none"):
                    aside = f"{key}.{uuid.uuid4()}.refused"
                    client.rename(key, aside)
                    refuse(queue, f"no queue: its key was of the type {kind}, and is called {aside} now", key)
                    cleared += 1
        return cleared

    def close(self) -> None:
        """Closes what can be closed; raises what the broker's death made of the rest.

        kombu reads the answer that is still owed before anything else. Where the broker has died
        that fails, and a second attempt came when the channel no longer knew its broker, and ended
        the worker.
        """
        try:
            super().close()
        except self.connection_errors:
            if self.closed:
                raise
            super().close()

    def _has_queue(self, queue: str, **_: Any) -> bool:  # noqa: ARG002 - kombu names it
        """A list that is not there is an empty queue: asking for both would be a round trip
        more."""
        return True

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Takes a message off the accounts, where it was put on them: those taken with `no_ack` are
        not."""
        try:
            self.qos.get(delivery_tag)
        except KeyError:
            return
        super().basic_ack(delivery_tag, multiple)


def _check_entry(separator: str, answer: Any, **_: Any) -> Any:
    """Redis' answer to BRPOP, or None in the place of anything that is not a message: as if the
    list were empty."""
    if not answer:
        return None
    key, raw = answer
    flaw = find_flaw_in_bytes(raw)
    if flaw is None:
        return key, raw
    name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
    refuse(name.rsplit(separator, 1)[0], flaw, raw)
    return None


class RedisTransport(Careful, redis.Transport):
    """Lists of a Redis."""

    Channel = RedisChannel
    connection_errors: tuple[type[Exception], ...]

    def close_connection(self, connection: Any) -> None:
        """Closes all channels, also where one cannot say good-bye."""
        try:
            super().close_connection(connection)
        except self.connection_errors:
            self.close_connection(connection)
            raise


# --- files ---


class FilesystemChannel(filesystem.Channel):
    """Messages are files `<place>_<when>_<id>.<queue>.msg`, whole from the first moment on, and
    taken in the order of their names.

    Reading one removes it. What cannot be read stays there under a name that ends in `.refused`.
    """

    data_folder_in: str
    data_folder_out: str
    control_folder: Path

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        """Raises ChannelError."""
        when = round(time.monotonic() * 1000)
        name = f"{place_of(payload)}_{when:015}_{uuid.uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        try:
            # No queue's messages begin with a dot: no process reads half a message.
            (folder / f".{name}").write_bytes(dumps(payload).encode())
            (folder / f".{name}").rename(folder / name)
        except OSError as error:
            raise ChannelError(f"Cannot add file {name!r} to {folder}: {error}") from error

    def _get(self, queue: str) -> Any:  # type: ignore[override]
        """Raises Empty."""
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            raw = _take_file(folder / name, queue)
            if raw is not None:
                return loads(raw)
        raise Empty

    def get_table(self, exchange: str) -> Any:
        """What is bound to an exchange. A table that cannot be read is written again."""
        try:
            return super().get_table(exchange)
        except (ValueError, TypeError):
            self._mend(exchange)
            return super().get_table(exchange)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        try:
            super()._queue_bind(exchange, routing_key, pattern, queue)
        except (ValueError, TypeError):
            self._mend(exchange)
            super()._queue_bind(exchange, routing_key, pattern, queue)

    def _mend(self, exchange: str) -> None:
        # kombu makes the file before it writes into it: that is no harm.
        time.sleep(0.1)
        with contextlib.suppress(ValueError, TypeError):
            super().get_table(exchange)
            return
        file = Path(self.control_folder) / f"{exchange}.exchange"
        with contextlib.suppress(OSError):
            refuse(file.name, "not a table of what is bound to an exchange", file.read_bytes()[:LARGEST])
            file.unlink()
        for binding in virtual.Channel.get_table(self, exchange):
            super()._queue_bind(exchange, *binding)


def _take_file(file: Path, queue: str) -> bytes | None:
    """The content of a message's file, which is removed; None where somebody else has it or it is
    no message."""
    mine = file.with_name(f"{file.name}.{uuid.uuid4()}.taken")
    try:
        file.rename(mine)
    except OSError:
        return None
    try:
        raw = _read_file(mine)
        mine.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            mine.rename(mine.with_suffix(".refused"))
        refuse(queue, f"the file cannot be read: {error.strerror or error}", file.name)
        return None
    flaw = find_flaw_in_bytes(raw)
    if flaw is not None:
        refuse(queue, flaw, raw)
        return None
    return raw


def _read_file(file: Path) -> bytes:
    """Raises OSError: also for anything but a file, which might never end or never begin."""
    # A link may lead anywhere, and opening a pipe waits for a writer.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        return opened.read(LARGEST + 1)


class FilesystemTransport(Careful, filesystem.Transport):
    """Files in a folder of this machine."""

    Channel = FilesystemChannel


_TRANSPORTS: Final[Mapping[str, type[virtual.Transport]]] = {
    "redis": RedisTransport,
    "rediss": RedisTransport,
    "filesystem": FilesystemTransport,
    "memory": MemoryTransport,
}


def _get_transport_cls(connection: kombu.Connection) -> Any:
    ours = _TRANSPORTS.get(connection.transport_cls)
    return ours or kombu.Connection.get_transport_cls(connection)


class CarefulPool(kombu.connection.ConnectionPool):
    """Makes connections that know our transports as well: kombu's are of a class of their own,
    whatever the class of the connection that the pool is for."""

    def new(self) -> Any:
        pooled = super().new()
        pooled.get_transport_cls = partial(_get_transport_cls, pooled)  # type: ignore[method-assign]
        return pooled


class Connection(kombu.Connection):
    """A connection for which `redis://` and its relatives mean these transports. Others in the
    process keep kombu's own."""

    get_transport_cls = _get_transport_cls

    def Pool(self, limit: int | None = None, **options: Any) -> Any:  # noqa: N802 - kombu's name
        return CarefulPool(self, limit, **options)


class CarefulAMQP(AMQP):
    """What a Celery app sends and receives with, over such connections."""

    Connection = Connection
