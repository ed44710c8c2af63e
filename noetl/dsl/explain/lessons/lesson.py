"""What is told of a code beyond its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\n"
#: Makes a playbook of a list of steps.
STEPS: Final = f"{HEAD}metadata: {{name: example, path: docs/example}}\nworkflow:\n"


@dataclass(frozen=True, slots=True)
class Lesson:
    """`why` it matters, in Markdown; a `bad` example, whose problem points at the words `at` (at
    its beginning where there are none); and the same thing said well. Examples are playbooks, or
    lists of steps."""

    why: str
    bad: str | bytes
    at: str
    good: str


def whole(example: str | bytes) -> str | bytes:
    """The playbook that the example is, or is a part of."""
    return STEPS + example if isinstance(example, str) and example.startswith("- step:") else example
