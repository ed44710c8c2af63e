"""The registry turns everything that can happen in a tool into an outcome."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call, Where
from noetl.tools.kit import registry as registry_module
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.tools.kit.registry import Registry


class ProbeConfig(ToolConfig):
    code: str = Field(description="Anything.")
    retries: int = Field(default=0, description="A number.")


class Probe(Tool):
    declaration = ToolDeclaration(
        kind="probe",
        queue="probe",
        error_kind="sql",
        description="Does what a test tells it.",
        config_model=ProbeConfig,
        required=(("code", "codes"),),
    )
    does: Callable[[], Any] = staticmethod(lambda: None)
    closed = 0

    def run(self, call: Call, config: ProbeConfig) -> Outcome:
        return succeeded(type(self).does(), {"rows": 1}, pg={"x": 1})

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    module = types.ModuleType("probe_of_tests")
    module.Probe = Probe  # type: ignore[attr-defined]
    module.Wrong = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_of_tests", module)
    monkeypatch.setattr(Probe, "does", staticmethod(lambda: None))
    points = {
        "probe": EntryPoint("probe", "probe_of_tests:Probe", "noetl.tools"),
        "noop": EntryPoint("noop", "noetl.tools.noop:Noop", "noetl.tools"),
        "missing": EntryPoint("missing", "probe_of_tests_missing.driver:Tool", "noetl.tools"),
        "wrong": EntryPoint("wrong", "probe_of_tests:Wrong", "noetl.tools"),
    }
    monkeypatch.setattr(registry_module, "entry_points", lambda: points)
    registry_module._info.cache_clear()
    made = Registry(Services(result_limit=10_000))
    yield made
    made.close()
    registry_module._info.cache_clear()


def run(registry: Registry, kind: str = "probe", /, **config: Any) -> Outcome:
    where = Where("1", "r", "s")
    return registry.run(Call(kind, config or {"code": "x"}, {"a": [1]}, {}, where, "t", 1, "key"))


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def test_every_outcome_tells_how_long_it_took(registry: Registry) -> None:
    good, bad = run(registry), run(registry, "nothing")
    assert good.ok
    assert good.meta["rows"] == 1
    assert good.meta["duration_ms"] >= 0
    assert bad.meta["duration_ms"] >= 0


def test_an_unknown_kind_names_the_nearest_one(registry: Registry) -> None:
    error = run(registry, "nop").error
    assert error is not None
    assert error.kind == "client_error"
    assert error.message == "There is no tool of kind 'nop'; did you mean 'noop'?"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"codes": "x"}, "The probe task needs 'code', which is missing."),
        ({"code": ""}, "The probe task needs 'code' or 'codes', which is missing or empty."),
        ({"retries": 1}, "The probe task needs 'code' or 'codes', which is missing or empty."),
    ],
)
def test_a_bad_configuration_is_one_sentence(
    registry: Registry, config: dict[str, Any], message: str
) -> None:
    error = run(registry, **config).error
    assert error is not None
    assert (error.kind, error.message) == ("client_error", message)


def test_a_key_that_means_nothing_is_a_warning_as_it_is_for_validate(registry: Registry) -> None:
    outcome = run(registry, code="x", retry=1)
    assert outcome.ok
    assert outcome.meta["warnings"] == [
        "The key 'retry' means nothing to the probe tool; did you mean 'retries'?"
    ]


def test_a_value_of_the_wrong_type_is_named_but_never_shown(registry: Registry) -> None:
    error = run(registry, code="x", retries="s3cret").error
    assert error is not None
    assert "'retries' of the probe task" in error.message
    assert "s3cret" not in error.message


def test_a_tool_error_keeps_all_that_it_knows(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    raised = ToolError(
        "server_error",
        "No.",
        retryable=True,
        type="HTTPError",
        line=3,
        traceback="tb",
        extras={"status": 503, "http": {"status": 503}},
    )
    monkeypatch.setattr(Probe, "does", failing(raised))
    outcome = run(registry)
    error = outcome.error
    assert error is not None
    assert (error.kind, error.message, error.type, error.line) == ("server_error", "No.", "HTTPError", 3)
    assert (error.retryable, error.traceback, error.status) == (True, "tb", 503)
    assert outcome.as_json()["status"] == "error"
    assert outcome.as_json()["http"] == {"status": 503}


def test_a_defect_of_a_tool_fails_its_task_with_a_traceback(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probe, "does", failing(ZeroDivisionError("division by zero")))
    error = run(registry).error
    assert error is not None
    assert (error.kind, error.type) == ("internal", "ZeroDivisionError")
    assert "division by zero" in error.message
    assert "Traceback" in (error.traceback or "")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"rows": [{"p": 1.5}, {"p": math.nan}]}, "result.rows[1].p is NaN, which JSON cannot express."),
        ([1, math.inf], "result[1] is Infinity, which JSON cannot express."),
        ({"tags": {1}}, "result.tags is a set, which JSON cannot express; make it a list."),
        ({"raw": b"x"}, "result.raw is bytes, which JSON cannot express; decode it or encode it in base64."),
        ({(1, 2): 1}, "result has the key (1, 2), a tuple; keys must be text."),
        ({"f": object()}, "result.f is of type object, which has no JSON form."),
        ([10**5000], "result[0] is an integer with more than 4300 digits."),
        ({"t": "\ud800"}, "result.t is text with a lone surrogate, which is no Unicode."),
    ],
)
def test_a_result_that_is_not_json_names_the_value(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, result: Any, message: str
) -> None:
    monkeypatch.setattr(Probe, "does", lambda: result)
    outcome = run(registry)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("sql", message)
    assert outcome.extras == {"pg": {"x": 1}}


def test_a_result_that_is_too_deep_or_too_large_is_refused(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    monkeypatch.setattr(Probe, "does", lambda: deep)
    error = run(registry).error
    assert error is not None
    assert "deeper than 200 levels" in error.message
    monkeypatch.setattr(Probe, "does", lambda: ["x" * 99] * 200)
    error = run(registry).error
    assert error is not None
    assert (error.kind, "10,000 bytes" in error.message) == ("limit", True)


def test_tuples_and_numeric_keys_become_plain_json(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probe, "does", lambda: {"a": (1, 2), 3: "three"})
    assert run(registry).result == {"a": [1, 2], "3": "three"}


def test_a_tool_whose_library_is_missing_fails_its_own_calls_only(registry: Registry) -> None:
    error = run(registry, "missing").error
    assert error is not None
    assert error.kind == "internal"
    assert "No module named 'probe_of_tests_missing'" in error.message
    assert run(registry).ok
    assert "cannot be loaded" in registry.kinds()["missing"].description
    assert registry.kinds()["probe"].required == (("code", "codes"),)


def test_an_entry_point_that_is_not_a_tool_is_refused(registry: Registry) -> None:
    error = run(registry, "wrong").error
    assert error is not None
    assert "not a subclass of Tool" in error.message


def test_noop_yields_its_input(registry: Registry) -> None:
    outcome = registry.run(Call("noop", {}, {"a": [1]}, {}, Where("1", "r", "s"), "t", 1, "key"))
    assert outcome.result == {"a": [1]}


def test_close_closes_each_tool_once(registry: Registry) -> None:
    run(registry)
    run(registry)
    before = Probe.closed
    registry.close()
    registry.close()
    assert Probe.closed == before + 1


def test_the_built_in_kinds_need_no_heavy_driver_to_be_known() -> None:
    import subprocess

    script = (
        "import sys\n"
        "from noetl.tools.kit.registry import load\n"
        "for kind in ('noop', 'python', 'shell'): load(kind).info()\n"
        "print([m for m in ('celery', 'sqlalchemy', 'duckdb', 'psycopg2', 'requests', 'flask') "
        "if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
