"""What a wait task says of an approval, and what that comes to at the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from noetl.facts.approvals import GROUP, SoughtApproval
from noetl.facts.durations import seconds
from noetl.net.forms import settle_form
from noetl.pipeline.templates import has_template

#: How many people one approval can need.
MOST_PEOPLE: Final = 100
#: Seconds between two reminders, at least: each is an event.
LEAST_REMINDER: Final = 1.0
#: Characters of a message: it stands in the log, in lists and on a page.
LONGEST_MESSAGE: Final = 10_000
Given = TypeVar("Given")
_FLAGS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class ApprovalConfig(BaseModel):
    """Whose approval is asked for, and of what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    by: str | list[str] | None = Field(
        default=None,
        description="Who is asked: names, and groups as `group:ops`; without it whoever may approve.",
    )
    count: int | str = Field(default=1, description="How many people have to approve.")
    message: str = Field(default="", description="What they are asked.")
    show: Any = Field(default=None, description="What they see before they answer: any value.")
    form: dict[str, Any] | list[Any] | None = Field(
        default=None, description="What they fill in, declared like `inputs`."
    )
    four_eyes: bool | str = Field(default=False, description="Who started the execution cannot approve it.")
    expires: int | float | str | None = Field(default=None, description="How long it can be answered: `2d`.")
    remind: int | float | str | None = Field(
        default=None, description="How often it is brought up again until then: `4h`."
    )

    @field_validator("count")
    @classmethod
    def _check_count(cls, given: int | str) -> int | str:
        return _checked(given, _read_count)

    @field_validator("expires", "remind")
    @classmethod
    def _check_time(cls, given: int | float | str | None) -> int | float | str | None:
        return _checked(given, partial(_read_time, least=0.0))

    @field_validator("four_eyes")
    @classmethod
    def _check_flag(cls, given: bool | str) -> bool | str:
        return _checked(given, _read_flag)

    def sought(self) -> SoughtApproval:
        """The approval that is waited for. Raises ValueError for one that nobody could give, or
        that was not meant so."""
        people, count = self._people(), _read_count(self.count)
        if people and count > len(people) and not any(one.startswith(GROUP) for one in people):
            raise ValueError(f"`count` is {count}, and `by` names {len(people)}: it could never be approved.")
        if len(self.message) > LONGEST_MESSAGE:
            raise ValueError(
                f"`message` has {len(self.message):,} characters; {LONGEST_MESSAGE:,} are possible."
            )
        return SoughtApproval(
            people,
            count,
            self.message,
            self.show,
            settle_form(self.form),
            _read_flag(self.four_eyes),
            _read_time(self.expires, 0.0),
            _read_time(self.remind, LEAST_REMINDER),
        )

    def _people(self) -> tuple[str, ...]:
        """Who is asked. What comes to nobody is not everybody: a template may have failed to find
        somebody."""
        if "by" not in self.model_fields_set:
            return ()
        given = [self.by] if isinstance(self.by, str) else self.by or []
        if not given or not all(one.removeprefix(GROUP).strip() for one in given):
            raise ValueError("`by` names nobody; leave it out where whoever may approve is asked.")
        return tuple(dict.fromkeys(given))


def _checked(given: Given, read: Callable[[Given], object]) -> Given:
    """`given`, which can be read, or is a template yet. Raises ValueError without the full stop:
    others go on behind it."""
    try:
        if not has_template(given):
            read(given)
    except ValueError as error:
        raise ValueError(str(error).rstrip(".")) from None
    return given


def _read_count(given: int | str) -> int:
    text = str(given).strip()
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MOST_PEOPLE:
        raise ValueError(f"`count` is {text[:40]!r}; from 1 to {MOST_PEOPLE} people can approve.")
    return int(text)


def _read_time(given: int | float | str | None, least: float) -> float | None:
    if given is None:
        return None
    found = seconds(given)
    if found <= 0 or found < least:
        raise ValueError(
            f"{given!r} is too short a time; it has to be {f'{least:g} s' if least else 'above 0'}."
        )
    return found


def _read_flag(given: bool | str) -> bool:
    text = str(given).strip().lower()
    if text not in _FLAGS:
        raise ValueError(f"`four_eyes` is {text[:40]!r}; write true or false.")
    return _FLAGS[text]
