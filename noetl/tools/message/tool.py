"""kind: message - publishes one message on RabbitMQ or Redis, through kombu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.durations import compact
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.tools.kit.http.addresses import AddressGuard, check_host

if TYPE_CHECKING:
    from kombu import Connection

#: Seconds that a call may take where `spec.timeout` says nothing, and those for connecting.
DEADLINE_S: Final = 30.0
CONNECT_S: Final = 10.0
_AMQP: Final = frozenset({"amqp", "amqps"})
_SCHEMES: Final = _AMQP | {"redis", "rediss"}
#: Reply codes of AMQP 0-9-1 (1.3, constants) that no second attempt changes.
_REFUSED: Final[Mapping[int, str]] = {
    312: "client_error",
    313: "client_error",
    403: "auth",
    404: "client_error",
}


class MessageConfig(ToolConfig):
    """Configuration of a message task."""

    url: str | None = Field(
        default=None, description="The broker: `amqp://`, `amqps://`, `redis://` or `rediss://`.", repr=False
    )
    auth: str | dict[str, Json] | None = Field(
        default=None, description="Name of a `generic` credential with `url`, or `{credential: name}`."
    )
    queue: str | None = Field(
        default=None, description="The queue that gets it, through the default exchange."
    )
    exchange: str | None = Field(default=None, description="The exchange, which must be there.")
    exchange_type: Literal["direct", "topic", "fanout"] = Field(
        default="direct", description="How the exchange routes, for Redis, which does not keep it."
    )
    routing_key: str = Field(default="", description="What the exchange routes by.")
    body: Json = Field(description="A text as it is, anything else as JSON.")
    headers: dict[str, Json] = Field(default_factory=dict, description="Headers of the message.")
    content_type: str | None = Field(
        default=None, description="By default `text/plain` of a text, else `application/json`."
    )
    persistent: bool = Field(
        default=True, description="The broker keeps it over a restart, where its queue is kept."
    )
    mandatory: bool = Field(default=True, description="Fail where no queue gets it (AMQP).")
    priority: int | None = Field(
        default=None, ge=0, le=9, description="Higher goes first, where the queue knows it."
    )

    @model_validator(mode="after")
    def _one_way(self) -> MessageConfig:
        if (self.queue is None) == (self.exchange is None):
            raise ValueError("it needs one of `queue` and `exchange`")
        if self.queue is not None and self.routing_key:
            raise ValueError("`routing_key` is for an `exchange`; a `queue` is its own")
        return self


class Message(Tool):
    """Publishes one message. Nothing is declared: queues and exchanges belong to who reads from
    them.

    On AMQP the call ends when the broker has confirmed the message. On Redis it is in its list, as
    kombu and Celery lay them. The call's idempotency key is the `message_id` and the header
    `idempotency-key`, the same for every attempt: readers can tell a repetition by it.

    With `NOETL_ALLOW_PRIVATE_NETWORKS=false` brokers at addresses that are not public are refused,
    as for [http](http.md)."""

    declaration = ToolDeclaration(
        kind="message",
        # It waits for a network, like the calls of http.
        queue="http",
        sections=(),
        effects="external",
        description="Publishes a message on RabbitMQ or Redis and waits until the broker has it.",
        result="`{exchange, routing_key, message_id, bytes, confirmed}`; `confirmed` is false on Redis, "
        "which confirms nothing.",
        errors="""
            `client_error` where the exchange is not there or no queue gets it (type `Unroutable`), `auth`
            where the broker refuses the login or the access, `timeout`, else `connection`; the last two are
            retryable.
        """,
        example="""
            - step: tell
              tool:
                kind: message
                auth: broker
                queue: orders
                body: {order: "{{ workload.order }}"}
              next: end
            - step: end
              tool: {kind: noop, input: {bytes: "{{ tell.bytes }}"}}
        """,
        config_model=MessageConfig,
        required=(("queue", "exchange"), ("url", "auth")),
    )

    def run(self, call: Call, config: MessageConfig) -> Outcome:
        url = _url(config, self.services)
        deadline_s = call.deadline_s or DEADLINE_S
        body, content_type = _encode(config)
        properties: dict[str, Any] = {
            "message_id": call.idempotency_key,
            "headers": {"idempotency-key": call.idempotency_key, **config.headers},
            "content_type": content_type,
        }
        if config.priority is not None:
            properties["priority"] = config.priority
        with _connection(url, deadline_s) as connection:
            try:
                self._publish(connection, config, body, properties)
            except (*connection.connection_errors, *connection.channel_errors) as error:
                raise _explain(error, connection, deadline_s) from None
        return succeeded(
            {
                "exchange": config.exchange or "",
                "routing_key": config.queue or config.routing_key,
                "message_id": call.idempotency_key,
                "bytes": len(body),
                "confirmed": _is_amqp(url),
            }
        )

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        way = "queue" if config.get("queue") is not None else "exchange"
        place = effects.credential(config.get("auth")) or effects.address(config.get("url"))
        return (f"a message to the {way} {effects.one_line(config.get(way))} on {place}",)

    def _publish(
        self, connection: Connection, config: MessageConfig, body: bytes, properties: dict[str, Any]
    ) -> None:
        connection.connect()
        # kombu's virtual channels can do more than the type of all channels says.
        channel: Any = connection.channel()
        if config.exchange is not None and connection.transport.driver_type != "amqp":
            channel.exchange_declare(config.exchange, config.exchange_type)
        producer = connection.Producer(channel, auto_declare=False)
        producer.publish(
            body,
            exchange=config.exchange or "",
            routing_key=config.queue or config.routing_key,
            content_encoding="utf-8",
            delivery_mode=2 if config.persistent else 1,
            mandatory=config.mandatory,
            retry=False,
            **properties,
        )


def _url(config: MessageConfig, services: Services) -> str:
    """Where the broker is. Raises ToolError that never quotes it: it holds a password."""
    match config.auth:
        case None:
            found: Json = config.url
        case str(name):
            found = config.url or services.credential(name).get("url")
        case fields:
            stored = services.credential(str(fields["credential"])) if "credential" in fields else {}
            found = config.url or {**stored, **fields}.get("url")
    parts = urlsplit(str(found or ""))
    if parts.scheme not in _SCHEMES or not parts.hostname or ";" in str(found):
        raise ToolError(
            "client_error" if config.auth is None else "auth",
            "The broker's `url` cannot be used; write amqp://user:password@host:port/vhost or "
            "redis://host:port/0.",
            type="BadUrl",
        )
    check_host(parts.hostname, AddressGuard(services.allow_private_networks, services.allowed_networks))
    return str(found)


def _is_amqp(url: str) -> bool:
    return urlsplit(url).scheme in _AMQP


def _connection(url: str, deadline_s: float) -> Connection:
    # Imported here: the compiler reads this module without calling it.
    from kombu import Connection

    connect_s = min(CONNECT_S, deadline_s)
    if _is_amqp(url):
        options: dict[str, Any] = {
            "confirm_publish": True,
            "read_timeout": deadline_s,
            "write_timeout": deadline_s,
        }
    else:
        options = {"socket_connect_timeout": connect_s, "socket_timeout": deadline_s}
    return Connection(url, connect_timeout=connect_s, transport_options={**options, "max_retries": 0})


def _encode(config: MessageConfig) -> tuple[bytes, str]:
    if isinstance(config.body, str):
        return config.body.encode("utf-8", "replace"), config.content_type or "text/plain"
    text = json.dumps(config.body, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace"), config.content_type or "application/json"


def _explain(error: BaseException, connection: Connection, deadline_s: float) -> ToolError:
    """The one sentence for what a driver raised; the address in it has no password."""
    where, code = _show(connection), getattr(error, "reply_code", None) or 0
    if isinstance(error, TimeoutError):
        message = f"The broker {where} did not answer within {compact(deadline_s)} (spec.timeout)."
        return ToolError("timeout", message, retryable=True, type="Timeout")
    why = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    if code in (312, 313):
        message = "No queue gets this message; make one, check its name, or say `mandatory: false`."
        return ToolError("client_error", message, type="Unroutable")
    if code in _REFUSED:
        return ToolError(_REFUSED[code], f"The broker {where} refuses the message: {why}.", type="Refused")
    if type(error).__name__ in ("AuthenticationError", "NoPermissionError"):
        return ToolError("auth", f"The broker {where} refuses the login: {why}.", type="Refused")
    return ToolError(
        "connection",
        f"The broker {where} cannot be reached: {why}.",
        retryable=True,
        type=type(error).__name__,
    )


def _show(connection: Connection) -> str:
    return f"{connection.hostname}:{connection.port}" if connection.port else str(connection.hostname)
