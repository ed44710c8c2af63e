"""kind: message - on a real Redis, and on a real RabbitMQ where there is one."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry
from tests.ports import free_port
from tests.waiting import GUARD_S

BROKERS = [
    pytest.param("redis_url", id="redis", marks=pytest.mark.redis),
    pytest.param("rabbitmq_url", id="rabbitmq", marks=pytest.mark.rabbitmq),
]


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry(Services(allow_private_networks=True))
    yield made
    made.close()


@pytest.fixture(params=BROKERS)
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a broker, of each kind in turn."""
    found: str = request.getfixturevalue(request.param)
    return found


def run(registry: Registry, /, deadline_s: float | None = GUARD_S, **config: Any) -> Outcome:
    outcome = registry.run(
        Call("message", config, {}, {}, Where("1", "r", "s"), "t", 1, "the-key", deadline_s)
    )
    assert isinstance(outcome, Outcome)
    return outcome


def result(registry: Registry, /, **config: Any) -> Any:
    outcome = run(registry, **config)
    assert outcome.ok, outcome.error
    return outcome.result


def error(registry: Registry, /, **config: Any) -> ErrorInfo:
    outcome = run(registry, **config)
    assert outcome.error is not None
    return outcome.error


@pytest.fixture
def declared(url: str) -> Iterator[Callable[..., Any]]:
    """Makes a queue, and takes one message from it."""
    with Connection(url) as connection:
        channel = connection.channel()
        made: list[Queue] = []

        def declare(name: str, exchange: str = "", routing_key: str = "") -> Callable[[], Any]:
            bound = Exchange(exchange, "topic", channel=channel) if exchange else None
            queue = Queue(name, bound, routing_key=routing_key, channel=channel, durable=True)
            queue.declare()
            made.append(queue)
            return lambda: queue.get(no_ack=True)

        yield declare
        for queue in made:
            queue.delete()


def test_a_message_is_in_its_queue_when_the_call_ended(
    registry: Registry, url: str, declared: Callable[..., Any]
) -> None:
    take = declared("orders")
    told = result(registry, url=url, queue="orders", body={"n": [1, None, "ü"]}, headers={"a": 1})
    assert told == {
        "exchange": "",
        "routing_key": "orders",
        "message_id": "the-key",
        "bytes": 22,
        "confirmed": url.startswith("amqp"),
    }
    message = take()
    assert json.loads(message.body) == {"n": [1, None, "ü"]}
    assert message.content_type == "application/json"
    assert message.properties["message_id"] == "the-key"
    assert message.headers == {"a": 1, "idempotency-key": "the-key"}
    assert message.properties["delivery_mode"] == 2


def test_a_text_is_sent_as_it_is(registry: Registry, url: str, declared: Callable[..., Any]) -> None:
    take = declared("texts")
    result(registry, url=url, queue="texts", body="a\nb", persistent=False, priority=3)
    message = take()
    body = message.body if isinstance(message.body, str) else bytes(message.body).decode()
    assert (body, message.content_type, message.properties["delivery_mode"]) == ("a\nb", "text/plain", 1)
    result(registry, url=url, queue="texts", body="<a/>", content_type="application/xml")
    assert take().content_type == "application/xml"


def test_an_exchange_routes_by_key(registry: Registry, url: str, declared: Callable[..., Any]) -> None:
    take = declared("eu-orders", "trade", "orders.eu.#")
    told = result(
        registry, url=url, exchange="trade", exchange_type="topic", routing_key="orders.eu.no", body=1
    )
    assert (told["exchange"], told["routing_key"]) == ("trade", "orders.eu.no")
    assert take() is not None


@pytest.mark.rabbitmq
def test_a_message_that_no_queue_gets_is_an_error_unless_that_is_fine(
    registry: Registry, rabbitmq_url: str
) -> None:
    found = error(registry, url=rabbitmq_url, queue="nobody", body=1)
    assert (found.kind, found.type, found.retryable) == ("client_error", "Unroutable", False)
    assert result(registry, url=rabbitmq_url, queue="nobody", body=1, mandatory=False)["confirmed"]


@pytest.mark.rabbitmq
def test_an_exchange_that_is_not_there_is_an_error(registry: Registry, rabbitmq_url: str) -> None:
    found = error(registry, url=rabbitmq_url, exchange="nowhere", body=1)
    assert (found.kind, found.retryable) == ("client_error", False)
    assert "nowhere" in found.message


@pytest.mark.rabbitmq
def test_a_wrong_password_is_an_error_of_the_login_and_never_shown(
    registry: Registry, rabbitmq_url: str
) -> None:
    found = error(registry, url=rabbitmq_url.replace("guest:guest", "guest:s3cret"), queue="a", body=1)
    assert (found.kind, found.retryable) == ("auth", False)
    assert "s3cret" not in str(found)


def test_a_broker_that_is_not_there_is_a_connection_error(registry: Registry) -> None:
    for scheme in ("amqp", "redis"):
        found = error(registry, url=f"{scheme}://u:s3cret@127.0.0.1:{free_port()}/0", queue="a", body=1)
        assert (found.kind, found.retryable) == ("connection", True)
        assert "s3cret" not in str(found)


@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_a_broker_that_says_nothing_is_given_up_at_the_deadline(registry: Registry, scheme: str) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        outcome = run(registry, 0.5, url=f"{scheme}://127.0.0.1:{port}/0", queue="a", body=1)
    assert outcome.error is not None
    assert outcome.error.retryable
    assert outcome.error.kind in ("timeout", "connection")


@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_brokers_at_private_addresses_are_refused_where_such_are(scheme: str) -> None:
    call: dict[str, Any] = {"url": f"{scheme}://0x7f.1:1/", "queue": "a", "body": 1}
    assert error(Registry(Services()), **call).type == "AddressBlocked"
    listed = Services(allowed_networks=(ip_network("127.0.0.0/8"),))
    assert error(Registry(listed), **call).kind == "connection"


def test_the_address_may_be_a_credential() -> None:
    port = free_port()
    stored = {"url": f"redis://127.0.0.1:{port}/0"}
    services = Services(credential=lambda name: {"broker": stored}[name], allow_private_networks=True)
    for auth in ("broker", {"credential": "broker"}, stored):
        found = error(Registry(services), auth=auth, queue="a", body=1)
        assert str(port) in found.message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"url": "redis://x/0", "body": 1}, "needs 'queue' or 'exchange'"),
        ({"queue": "a", "body": 1}, "needs 'url' or 'auth'"),
        ({"url": "redis://x/0", "queue": "a"}, "needs 'body', which is missing"),
        ({"url": "redis://x/0", "queue": "a", "exchange": "b", "body": 1}, "one of `queue` and `exchange`"),
        ({"url": "redis://x/0", "queue": "a", "routing_key": "b", "body": 1}, "`routing_key` is for"),
        ({"url": "filesystem:///etc", "queue": "a", "body": 1}, "`url` cannot be used"),
        ({"url": "sqs://x", "queue": "a", "body": 1}, "`url` cannot be used"),
        ({"url": "redis://x/0;redis://y/0", "queue": "a", "body": 1}, "`url` cannot be used"),
    ],
)
def test_a_call_that_cannot_be_made_says_why(
    registry: Registry, config: dict[str, Any], message: str
) -> None:
    found = error(registry, **config)
    assert found.kind == "client_error"
    assert message in found.message
