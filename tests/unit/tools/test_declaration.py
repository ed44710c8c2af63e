"""Tools that say what they are in class variables, as packages do that were made before
`ToolDeclaration`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from pydantic import Field, ValidationError

from noetl.facts.outcome import Outcome, succeeded
from noetl.net.model import Spelling
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig, ToolDeclaration
from noetl.tools.http.request import HttpConfig, Timeouts
from noetl.tools.kit.declaration import NEEDED
from noetl.tools.kit.manual import manual_of
from noetl.tools.sqlite.tool import SqliteConfig


class GreetConfig(ToolConfig):
    """Configuration of a greeting."""

    name: str = Field(description="Who is greeted.")


#: Every class variable that `Tool` had at 46fb24c, and `spellings`, with another value than its
#: default.
OLD = {
    "kind": "greet",
    "queue": "voices",
    "effects": "internal",
    "error_kind": "sql",
    "description": "Greets.",
    "result": "A text.",
    "errors": "None.",
    "example": "- step: a",
    "config_model": GreetConfig,
    "written_model": GreetConfig,
    "required": (("name",),),
    "verbatim": ("name",),
    "verbatim_with_params": ("other",),
    "quoted": ("shell",),
    "python_keys": ("code",),
    "source_files": ("script",),
    "defaults": {"timeout": 5},
    "hands_on": True,
    "suspends": True,
    "abandons": True,
    "by_reference": ("rows",),
    "sections": ("greet",),
    "credentials": ("login",),
    "spellings": {"who": Spelling("name")},
}


class Greet(Tool):
    """Says hello."""

    locals().update(OLD)

    def run(self, call: Call, config: GreetConfig) -> Outcome:
        return succeeded(f"hello {config.name}")


def test_class_variables_are_read_into_the_declaration() -> None:
    said = {name: getattr(Greet.declaration, name) for name in OLD}
    assert said == OLD
    made = {one.name for one in fields(ToolDeclaration)} - OLD.keys()
    assert made == {
        "schema",
        "faults",
        "parse",
        "effects_of",
        "deferred",
        "declares",
        "may_be_empty",
        "names_result",
        "takes_rows",
    }


def test_the_compiler_and_the_manual_see_no_difference() -> None:
    class New(Greet):
        """Says hello."""

        declaration = ToolDeclaration(**OLD)

    def seen(tool: type[Tool]) -> ToolDeclaration:
        info = tool.info()
        assert isinstance(info, ToolDeclaration)
        assert info.faults({"name": 1})[0]["loc"] == ("name",)
        assert info.effects_with({}) == "external"
        made = ToolDeclaration
        return replace(info, faults=made.faults, parse=made.parse, effects_of=made.effects_of)

    assert seen(Greet) == seen(New)
    assert manual_of(Greet) == manual_of(New)


def test_what_is_not_said_has_its_default() -> None:
    class Least(Tool):
        kind = queue = "least"
        description = "Says the least."
        config_model = GreetConfig

        def run(self, call: Call, config: GreetConfig) -> Outcome:
            return succeeded(None)

    assert Least.declaration == ToolDeclaration(
        kind="least", queue="least", description="Says the least.", config_model=GreetConfig
    )


def test_a_base_without_a_kind_is_completed_by_those_below_it() -> None:
    class Voice(Tool):
        queue = "voices"
        config_model = GreetConfig

        def run(self, call: Call, config: GreetConfig) -> Outcome:
            return succeeded(None)

    class Whisper(Voice):
        kind = "whisper"
        description = "Whispers."

    assert not hasattr(Voice, "declaration")
    assert (Whisper.declaration.kind, Whisper.declaration.queue) == ("whisper", "voices")


def test_a_class_variable_changes_what_is_inherited() -> None:
    class Loud(Greet):
        kind = "loud"
        effects = "none"

    assert Loud.declaration == replace(Greet.declaration, kind="loud", effects="none")
    assert Greet.declaration.kind == "greet"


@pytest.mark.parametrize("name", NEEDED)
def test_a_declaration_says_at_least_what_is_needed(name: str) -> None:
    least = {one: OLD[one] for one in NEEDED if one != name}
    with pytest.raises(TypeError, match=name):
        ToolDeclaration(**least)


@pytest.mark.parametrize(
    ("model", "config", "read"),
    [
        (HttpConfig, {"url": "u", "timeout": "1m30s"}, 90.0),
        (HttpConfig, {"url": "u", "timeout": 2}, 2.0),
        (
            HttpConfig,
            {"url": "u", "timeout": {"connect": "500ms", "total": "PT1M"}},
            Timeouts(connect=0.5, total=60),
        ),
        (SqliteConfig, {"query": "select 1", "busy_timeout": "2s"}, 2.0),
        (SqliteConfig, {"query": "select 1", "busy_timeout": 0}, 0.0),
    ],
)
def test_a_number_of_seconds_may_be_written_as_a_duration(model: Any, config: Any, read: Any) -> None:
    found = model.model_validate(config)
    assert (found.timeout if model is HttpConfig else found.busy_timeout) == read


@pytest.mark.parametrize("timeout", ["soon", "0s", "-1s", {"connect": "1 parsec"}, "inf"])
def test_what_is_no_duration_is_refused(timeout: Any) -> None:
    with pytest.raises(ValidationError):
        HttpConfig.model_validate({"url": "u", "timeout": timeout})
