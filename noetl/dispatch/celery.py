"""Messages through Celery. The log is the truth; what leaves here may be lost, doubled or
reordered."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.canvas import Signature
from celery.result import denied_join_result
from kombu import Producer
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from noetl.dispatch.deployer import celery_settings
from noetl.dispatch.naming import SCHEDULER_QUEUE, TURN, celery_task_id, format_arguments
from noetl.dispatch.transports import CarefulAMQP
from noetl.errors import ConfigError, Unavailable, UnknownPurpose
from noetl.facts.limits import LAST_PLACE
from noetl.usecases.ports import CommandRow
from noetl.usecases.purposes import find_purpose

log = logging.getLogger(__name__)

#: The body of a loop's chord wakes the scheduler before anything else does.
BODY_PRIORITY = 0


def _counts_up(scheme: str) -> bool:
    """Whether a larger number comes first with such a broker: with AMQP it does, and with those
    that Celery emulates a queue for the smaller one."""
    return scheme.removeprefix("py").startswith("amqp")


class CeleryDispatcher:
    """Hands commands to queues and wakes the scheduler, over one pool of producers."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        # Only Redis counts a chord's header natively; elsewhere a chord would poll, so lanes travel
        # alone.
        self._chords = urlsplit(str(app.conf.result_backend or "")).scheme.startswith("redis")
        self._counts_up = _counts_up(urlsplit(str(app.conf.broker_url or "")).scheme)

    def send(self, commands: Sequence[CommandRow]) -> None:
        """Raises Unavailable. What was sent before the failure stays sent: receiving twice is
        harmless. Commands of a purpose that is not known stay behind, with a line in the log."""
        # Lanes' results are not awaited here: without this Celery would subscribe to each of them.
        with _translate_errors(), denied_join_result():
            for chord_id, members in groupby(filter(_is_known, commands), key=lambda row: row.chord_id):
                rows = list(members)
                if chord_id is None or not self._chords:
                    self._send_plain(rows)
                else:
                    self._send_lanes(chord_id, rows)

    def wake(self) -> None:
        """Raises Unavailable."""
        with _translate_errors(), self._app.producer_or_acquire() as producer:
            if not self._wake_waits(producer):
                self._turn().apply_async(producer=producer)

    def _wake_waits(self, producer: Producer) -> bool:
        """Whether a wake is in the queue that its taker has not seen yet: what was committed before
        we looked is committed when that one is answered. Where that is unknown, one more does no
        harm."""
        connection: Any = producer.connection
        if not connection.connected:
            # Publishing connects, and gives up sooner than a question would.
            return False
        try:
            declared = connection.default_channel.queue_declare(queue=SCHEDULER_QUEUE, passive=True)
            return bool(declared.message_count)
        except (*connection.connection_errors, *connection.channel_errors):
            return False

    def ping(self) -> None:
        """Raises Unavailable where the broker does not answer within a second or two."""
        patience = {"socket_connect_timeout": 1, "socket_timeout": 2}
        with (
            _translate_errors(),
            self._app.connection_for_write(connect_timeout=1, transport_options=patience) as connection,
        ):
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)

    def waiting(self, queue: str) -> int:
        """Raises Unavailable."""
        with _translate_errors(), self._app.connection_or_acquire() as connection:
            channel = connection.default_channel
            try:
                return int(channel.queue_declare(queue=queue, passive=True).message_count)
            except connection.channel_errors:
                # It has not been declared yet: it is empty.
                return 0

    def _turn(self) -> Signature:
        return self._app.signature(
            TURN,
            queue=SCHEDULER_QUEUE,
            priority=self._on_the_wire(BODY_PRIORITY),
            ignore_result=True,
            immutable=True,
        )

    def _on_the_wire(self, place: int) -> int:
        """The number of a message whose place in the line is from 0, which comes first, to 9."""
        return LAST_PLACE - place if self._counts_up else place

    def _command(self, row: CommandRow) -> Signature:
        purpose = find_purpose(row)
        return self._app.signature(
            purpose.task,
            args=(row.command_id,),
            queue=row.queue,
            priority=self._on_the_wire(row.priority),
            task_id=celery_task_id(row.command_id),
            shadow=row.label,
            # What Flower shows of the arguments.
            argsrepr=format_arguments(row.execution_id, row.command_id),
            ignore_result=not (purpose.in_chord and self._chords),
        )

    def _send_plain(self, rows: Sequence[CommandRow]) -> None:
        with self._app.producer_or_acquire() as producer:
            for row in rows:
                self._command(row).apply_async(producer=producer)

    def _send_lanes(self, chord_id: str, rows: Sequence[CommandRow]) -> None:
        """Sends members of a chord's header with their place in it, all of them or some of them
        again: without their place they would never complete it.

        Not through `chord()`, which would subscribe to the result of each lane and never read one.
        """
        body = self._turn()
        self._app.backend.set_chord_size(chord_id, rows[0].chord_size or len(rows))
        with self._app.producer_or_acquire() as producer:
            for row in rows:
                self._command(row).apply_async(
                    producer=producer, group_id=chord_id, group_index=row.chord_index, chord=body
                )


def _is_known(row: CommandRow) -> bool:
    try:
        find_purpose(row)
    except UnknownPurpose as error:
        log.error("A command is not sent: %s", error)  # noqa: TRY400
        return False
    return True


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (OperationalError, KombuError, RedisError, OSError) as error:
        raise Unavailable(f"The broker does not answer: {str(error).rstrip('.')}.") from error


def make_app(broker_url: str, backend: str | None, longest_task_s: float = 0.0) -> Celery:
    """The Celery application for tasks that take so many seconds at most, with the deployer's
    settings over NoETL's.

    Raises ConfigError where those contradict what NoETL promises.
    """
    settings = celery_settings(broker_url, backend, longest_task_s)
    app = Celery("noetl", broker=broker_url, backend=backend, set_as_current=False, amqp=CarefulAMQP)
    app.config_from_object(settings)
    scheme, _, folder = broker_url.partition("://")
    if scheme == "filesystem":
        app.conf.update(broker_url="filesystem://", broker_transport_options=_files(Path(folder)))
    else:
        app.conf.update(broker_url=broker_url)
    if _counts_up(scheme):
        # Without it RabbitMQ does not look at priorities.
        app.conf.update(task_queue_max_priority=LAST_PLACE)
    app.conf.update(result_backend=backend)
    _check_transport(app, scheme)
    app.set_default()
    return app


def _check_transport(app: Celery, scheme: str) -> None:
    """Raises ConfigError where messages cannot travel so. Nothing is asked of the broker."""
    try:
        app.connection_for_write().get_transport_cls()
    except (LookupError, ImportError) as error:
        raise ConfigError(
            f"NOETL_BROKER_URL begins with {scheme}://, and no such broker can be used here: "
            f"{error.args[0]}; write redis://host:6379/0, or amqp://user:password@host//."
        ) from error


def _files(folder: Path) -> dict[str, object]:
    """Options of kombu's filesystem transport: producers write where consumers read."""
    for name in ("messages", "control"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    messages = str(folder / "messages")
    control = str(folder / "control")
    return {
        "data_folder_in": messages,
        "data_folder_out": messages,
        "control_folder": control,
        "polling_interval": 0.05,
    }
