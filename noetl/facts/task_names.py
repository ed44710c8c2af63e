"""What tasks are called where people read of them."""

from __future__ import annotations

import re
from typing import Final

#: The name of a task to which its playbook gives none.
_INVENTED: Final = re.compile(r"task_[0-9]+")


def find_task_name(name: str | None) -> str:
    """The name that the playbook gives to a task; empty where it gives none."""
    return "" if name is None or _INVENTED.fullmatch(name) else name
