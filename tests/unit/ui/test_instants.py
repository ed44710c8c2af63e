"""Instants within sentences and tooltips."""

from __future__ import annotations

import pytest

from noetl.ui.instants import mark_instants


@pytest.mark.parametrize(
    "said", ["2026-01-31T14:42:51.556080+00:00", "2026-01-31T14:42:51+00:00", "2026-01-31 14:42:51 UTC"]
)
def test_an_instant_in_a_sentence_is_one_that_browsers_say_in_their_zone(said: str) -> None:
    assert mark_instants(f"signal 'a' or {said}, or so") == (
        "signal &#39;a&#39; or "
        '<time datetime="2026-01-31T14:42:51+00:00" title="2026-01-31T14:42:51+00:00">'
        "2026-01-31 14:42:51 UTC</time>, or so"
    )


def test_what_else_a_sentence_holds_is_text() -> None:
    assert mark_instants("<b>\u202e2026-01-31</b>") == "&lt;b&gt;[U+202E]2026-01-31&lt;/b&gt;"
