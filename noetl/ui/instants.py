"""Instants within sentences: written so that a browser says them in its own time zone."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from markupsafe import Markup

from noetl.ui.json_text import make_visible

#: As waits, leases and timers say them: always in UTC.
_INSTANT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:\+00:00| UTC)")


def mark_instants(text: str) -> Markup:
    """The text with `<time>` around each instant. For sentences of this system alone: what others
    wrote stays as it is."""
    marked, end = Markup(), 0
    for found in _INSTANT.finditer(text):
        marked += make_visible(text[end : found.start()])
        marked += _TIME.format(*found.groups())
        end = found.end()
    return marked + make_visible(text[end:])


_TIME: Final = Markup('<time datetime="{0}T{1}+00:00" title="{0}T{1}+00:00">{0} {1} UTC</time>')


def say_instant(at: datetime) -> str:
    """For tooltips, which have no elements: a script says the same in the browser's time zone where
    the element is marked as `data-utc`."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
