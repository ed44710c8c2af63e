"""One bucket of requests for all workers of a machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from noetl.quantum.jobs.limiter import Bucket, Throttled


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def taken(bucket: Bucket) -> int:
    """How many requests are left at this instant."""
    for number in range(1000):
        try:
            bucket.take()
        except Throttled:
            return number
    raise AssertionError("the bucket has no bottom")


def test_a_sixth_of_a_minute_may_come_at_once_and_then_one_after_the_other(tmp_path: Path) -> None:
    clock = Seconds()
    bucket = Bucket(tmp_path, "vendor", 60, clock=clock)
    assert taken(bucket) == 10
    with pytest.raises(Throttled) as held:
        bucket.take()
    assert held.value.seconds == pytest.approx(1.0)
    clock.now += 3.0
    assert taken(bucket) == 3


def test_processes_share_a_bucket_and_accounts_do_not(tmp_path: Path) -> None:
    clock = Seconds()
    bucket = Bucket(tmp_path, "vendor", 60, "a", clock)
    code = (
        "import sys; from pathlib import Path; from noetl.quantum.jobs.limiter import Bucket\n"
        "for _ in range(4): Bucket(Path(sys.argv[1]), 'vendor', 60, 'a', lambda: 100.0).take()"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert taken(bucket) == 6
    assert taken(Bucket(tmp_path, "vendor", 60, "b", clock)) == 10


def test_a_vendor_that_asks_for_rest_gets_it_from_everybody(tmp_path: Path) -> None:
    clock = Seconds()
    Bucket(tmp_path, "vendor", 60, clock=clock).rest(30)
    bucket = Bucket(tmp_path, "vendor", 60, clock=clock)
    with pytest.raises(Throttled) as held:
        bucket.take()
    assert held.value.seconds == pytest.approx(30.0)
    clock.now += 30
    bucket.take()


def test_a_bucket_of_an_earlier_life_of_the_machine_or_a_broken_one_is_full(tmp_path: Path) -> None:
    clock = Seconds()
    bucket = Bucket(tmp_path, "vendor", 60, clock=clock)
    bucket.rest(1000)
    clock.now = 5.0
    assert taken(bucket) == 10
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"half")
    assert taken(bucket) == 10


def test_what_follows_a_request_is_granted_and_owed_by_the_next_one(tmp_path: Path) -> None:
    clock = Seconds()
    bucket = Bucket(tmp_path, "vendor", 6, clock=clock)
    bucket.take()
    for _ in range(2):
        bucket.take(follows=True)
    with pytest.raises(Throttled) as held:
        bucket.take()
    assert held.value.seconds == pytest.approx(30.0)
