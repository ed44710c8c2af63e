"""Parts that are made once for all who look at the same: how old they may be."""

from __future__ import annotations

import itertools

import pytest

from noetl.ui.kept_parts import KeptParts, say_moment, say_now


@pytest.mark.parametrize("moment", ["", "elsewhere:1.0", "long ago"])
def test_what_changes_without_news_is_shared_for_as_long_as_it_may_be_old(moment: str) -> None:
    now = 1000.0
    parts, made = KeptParts(lambda: now), map(str, itertools.count())
    moment = moment if moment != "long ago" else say_moment(now)
    assert parts.get("queues", moment, lambda: next(made), within_s=0.2) == "0"
    now += 0.15
    assert parts.get("queues", moment, lambda: next(made), within_s=0.2) == "0"
    now += 0.1
    assert parts.get("queues", moment, lambda: next(made), within_s=0.2) == "1"


def test_it_is_made_anew_for_who_has_heard_of_a_change_since() -> None:
    parts, made = KeptParts(), map(str, itertools.count())
    assert parts.get("queues", "", lambda: next(made), within_s=60) == "0"
    heard = say_now()
    assert parts.get("queues", heard, lambda: next(made), within_s=60) == "1"
    assert parts.get("queues", heard, lambda: next(made), within_s=60) == "1"
