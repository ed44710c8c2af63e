"""What dispatchers promise about wakes, and what the Celery one leaves at the broker."""

from __future__ import annotations

import pytest
import redis

from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.dispatch.naming import SCHEDULER_QUEUE
from noetl.errors import Unavailable
from tests import services


@pytest.fixture
def dispatcher(redis_url: str) -> CeleryDispatcher:
    return CeleryDispatcher(make_app(redis_url, redis_url))


def test_one_wake_waits_for_everybody_who_asks_for_a_turn(
    dispatcher: CeleryDispatcher, redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(3):
            dispatcher.wake()
        assert client.llen(SCHEDULER_QUEUE) == 1
        client.delete(SCHEDULER_QUEUE)  # its taker may have looked already
        dispatcher.wake()
        assert client.llen(SCHEDULER_QUEUE) == 1


def test_messages_that_wait_are_counted_and_a_queue_that_nobody_used_is_empty(
    dispatcher: CeleryDispatcher,
) -> None:
    assert dispatcher.waiting(SCHEDULER_QUEUE) == 0
    dispatcher.wake()
    assert dispatcher.waiting(SCHEDULER_QUEUE) == 1
    assert dispatcher.waiting("nobody") == 0


def test_a_wake_that_no_broker_takes_says_so() -> None:
    url = f"redis://127.0.0.1:{services.free_port()}/0"
    with pytest.raises(Unavailable, match="does not answer"):
        CeleryDispatcher(make_app(url, None)).wake()
