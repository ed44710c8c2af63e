"""What is told of a tool's keys goes into the mappings that they take."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.tools.kit.manual import default_of, manual_of, page


class Pause(ToolConfig):
    """A mapping inside of a mapping."""

    seconds: float = Field(default=2.0, description="How long.")


class Line(ToolConfig):
    """One kind of shape."""

    kind: Literal["line"]
    size: int = Field(description="How large.")


class Round(ToolConfig):
    """Another one, with a mapping and with one of its own type."""

    kind: Literal["round"]
    size: int = Field(description="How large.")
    pause: Pause = Field(default_factory=Pause, description="Between two.")
    inner: Round | None = Field(default=None, description="What is inside.")


class DrawConfig(ToolConfig):
    """Keys of all sorts."""

    shape: Annotated[Line | Round, Field(discriminator="kind")] = Field(description="What is drawn.")
    pauses: Pause | list[Pause] | None = Field(default=None, description="One, or some.")
    color: str = Field(default="red", description="Of everything.")


class Draw(Tool):
    """Draws."""

    declaration = ToolDeclaration(
        kind="draw",
        queue="draw",
        description="Draws.",
        config_model=DrawConfig,
    )

    def run(self, call: Call, config: Any) -> Outcome:
        return succeeded(None)


def test_keys_of_mappings_follow_the_key_that_takes_them() -> None:
    told = [(key.name, key.type, default_of(key), key.description) for key in manual_of(Draw).keys]

    assert told[:6] == [
        ("shape", "mapping", "required", "What is drawn."),
        ("shape.kind", "`line` or `round`", "required", "Which of them it is."),
        ("shape.size", "whole number", "required", "How large."),
        ("shape.pause", "mapping", "-", "Of `round`: Between two."),
        ("shape.pause.seconds", "number", "2.0", "Of `round`: How long."),
        ("shape.inner", "mapping", "-", "Of `round`: What is inside."),
    ]
    assert told[-3:] == [
        ("pauses", "mapping or list", "-", "One, or some."),
        ("pauses.seconds", "number", "2.0", "How long."),
        ("color", "text", "red", "Of everything."),
    ]


def test_a_mapping_with_one_of_its_own_type_is_reported_to_a_depth() -> None:
    deepest = max(key.name.count(".") for key in manual_of(Draw).keys)

    assert deepest == 3


def test_the_page_has_a_row_for_every_key() -> None:
    text = page(manual_of(Draw))

    assert "| `shape.pause.seconds` | number | `2.0` | Of `round`: How long. |" in text
