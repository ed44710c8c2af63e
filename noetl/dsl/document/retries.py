"""`retry` of tasks and steps, in the canonical form and in the classic dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Tag

from noetl.dsl.document.base import Count, DocumentPart, Duration, Key, expect, known_keys
from noetl.dsl.document.classic import Retry


class TaskRetry(DocumentPart):
    """How often a call is tried, and when it is tried again: a rule with `do: retry`."""

    # A slip for one of these is a slip all the same.
    rewritten: ClassVar[tuple[str, ...]] = known_keys(Retry)

    attempts: Count = None
    """All tries together, the first included (3 unless given); or a template."""
    delay: Duration = None
    """Before the next try: seconds (1 unless given), `500ms`, `10s`, `5m`, or a template."""
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    """How the delay grows: not (`fixed`), unless given."""
    jitter: Duration = None
    """Seconds at most added to the delay."""
    when: bool | str | None = None
    """A guard over the names that rules see, asked after errors; after successes as well where it
    reads `result`, `response` or the outcome. Without one every error is retried."""


#: The keys of mappings that are of the classic dialect.
CLASSIC_KEYS: Final = frozenset(known_keys(Retry)) - frozenset(known_keys(TaskRetry))


def is_classic_retry(value: object) -> bool:
    """Whether what stands under `retry` is of the classic dialect, and not of the canonical
    form."""
    match value:
        case Mapping():
            # There a number is a fixed delay.
            return not (CLASSIC_KEYS.isdisjoint(value) and isinstance(value.get("backoff"), str | None))
        case list() | Retry():
            return True
        case _:
            return False


RetryForm: TypeAlias = Annotated[
    Annotated[
        Annotated[int, Tag("<number>")]
        | Annotated[str, Tag("<text>")]
        | Annotated[list[Retry], Tag("<list>")]
        | Annotated[Retry, Tag("<classic>")]
        | Annotated[TaskRetry, Tag("<mapping>")],
        expect(
            "a number of attempts, or a mapping with attempts, delay, backoff, jitter or when",
            lambda form: "<classic>" if is_classic_retry(form) else "<mapping>",
        ),
    ]
    | None,
    Key("count", example="3"),
]
