"""What stands behind the end of an execution."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, quote_value
from noetl.net.checks import find_arcs_behind_ends


def check_arcs_behind_ends(subject: Subject) -> Iterator[Finding]:
    """Arcs that are never taken because the execution ends with their step."""
    for arc in find_arcs_behind_ends(subject.net) if subject.net is not None else ():
        target = f"to {quote_value(arc.step)}" if arc.step else "that assigns"
        yield Finding(
            Code.IGNORED,
            subject.notes.arcs[arc.id],
            f"the arc {target} is never taken: once {quote_value(arc.source)} has ended well the "
            "execution ends",
            'remove it, or give it a guard about failures: when: "{{ error is defined }}"',
        )
