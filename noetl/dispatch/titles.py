"""What `ps` shows of our processes."""

from __future__ import annotations

import os

from setproctitle import setproctitle

# A title may otherwise grow over the environment, which other programs then read as nonsense. Said
# when this is imported: Celery and gunicorn set titles too, before we do.
os.environ.setdefault("SPT_NOENV", "1")


def name_process(role: str) -> None:
    """Shows this process as `noetl: ROLE`, as far as its command line has room for it."""
    setproctitle(f"noetl: {role}")
