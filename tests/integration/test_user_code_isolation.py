"""Where user code runs, what it sees of the worker's environment, and how its process ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry
from tests.waiting import GUARD_S

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
#: True in a sandbox: there is no process but its own.
BOXED = "import os\nresult = len([n for n in os.listdir('/proc') if n.isdigit()]) < 10"

Open = Callable[..., Registry]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """`opened(python_isolation=...)`: the tools with such services."""
    made: list[Registry] = []

    def open_(**services: Any) -> Registry:
        made.append(Registry(Services(scratch=tmp_path / "scratch", **services)))
        return made[-1]

    yield open_
    for registry in made:
        registry.close()


def run(registry: Registry, kind: str, config: dict[str, Any], **spec: Any) -> Outcome:
    return registry.run(Call(kind, config, {}, spec, Where("1", "r", "s"), "t", 1, "key", GUARD_S))


def python(registry: Registry, code: str, *, env: Any = None, **spec: Any) -> Outcome:
    return run(registry, "python", {"code": code} | ({} if env is None else {"env": env}), **spec)


# --- isolation -----------------------------------------------------------------------------------


@needs_bubblewrap
@pytest.mark.parametrize(
    ("setting", "asked", "boxed"),
    [
        ("process", None, False),
        ("process", "sandbox", True),
        ("sandbox", None, True),
        ("sandbox", "sandbox", True),
    ],
)
def test_a_task_may_ask_for_more_isolation_than_the_setting(
    opened: Open, setting: str, asked: str | None, boxed: bool
) -> None:
    spec = {} if asked is None else {"isolation": asked}
    outcome = python(opened(python_isolation=setting), BOXED, **spec)
    assert outcome.error is None
    assert outcome.result is boxed
    hidden = run(opened(python_isolation=setting), "shell", {"command": "test ! -e /etc/shadow"}, **spec)
    assert hidden.ok is boxed


@pytest.mark.parametrize(
    ("services", "asked", "message"),
    [
        (
            {"python_isolation": "sandbox"},
            "process",
            "spec.isolation: process is not allowed here: this worker runs user code in a sandbox "
            "(NOETL_PYTHON_ISOLATION).",
        ),
        (
            {"python_isolation": "sandbox", "python_inline": True},
            "inline",
            "spec.isolation: inline is not allowed here: this worker runs user code in a sandbox "
            "(NOETL_PYTHON_ISOLATION).",
        ),
        (
            {},
            "inline",
            "spec.isolation: inline is not allowed here: set NOETL_PYTHON_INLINE=1 where only trusted "
            "playbooks run.",
        ),
        (
            {},
            "sandbx",
            "spec.isolation is 'sandbx', and not one of inline, process, sandbox; did you mean sandbox?",
        ),
        (
            {},
            ["sandbox"],
            "spec.isolation is ['sandbox'], and not one of inline, process, sandbox; did you mean sandbox?",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_task_never_gets_less_isolation_than_the_setting(
    opened: Open, services: dict[str, Any], asked: Any, message: str, kind: str
) -> None:
    config = {"python": {"code": "result = 1"}, "shell": {"command": "echo 1"}}[kind]
    error = run(opened(**services), kind, config, isolation=asked).error
    assert error is not None
    assert (error.kind, error.message, error.retryable) == ("client_error", message, False)


def test_inline_code_runs_in_the_worker_where_the_setting_allows_it(opened: Open) -> None:
    registry = opened(python_inline=True)
    code = "import os\ndef main(): return {'pid': os.getpid()}"
    assert python(registry, code, isolation="inline").result == {"pid": os.getpid()}
    assert python(registry, code).result != {"pid": os.getpid()}, "only where the task asks for it"
    failure = python(registry, "x = 1\nraise ValueError('no')", isolation="inline").error
    assert failure is not None
    assert (failure.type, failure.message, failure.line) == ("ValueError", "no", 2)
    refused = run(registry, "python", {"code": "1", "env": {"A": "1"}}, isolation="inline").error
    assert refused is not None
    assert refused.message == "env needs a separate process; leave spec.isolation: inline or env away."
    command = run(registry, "shell", {"command": "true"}, isolation="inline").error
    assert command is not None
    assert command.message == "A command runs in a separate process: spec.isolation cannot be inline."


def test_inline_code_gets_copies_of_its_inputs(opened: Open) -> None:
    registry = opened(python_inline=True)
    given = {"rows": [1]}
    call = Call(
        "python",
        {"code": "rows.append(2); result = rows"},
        given,
        {"isolation": "inline"},
        Where("1", "r", "s"),
        "t",
        1,
        "k",
    )
    assert registry.run(call).result == [1, 2]
    assert given == {"rows": [1]}


# --- the environment -----------------------------------------------------------------------------

ENVIRONMENT = "import os, subprocess\nresult = dict(os.environ)"


def test_code_sees_the_variables_of_its_task_and_those_that_the_setting_hands_on(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PROXY_HOST", "SECRET", "NOETL_SECRET_KEY"):
        monkeypatch.setenv(name, name.lower())
    registry = opened(python_env=("PROXY_HOST", "NOETL_SECRET_KEY"))
    seen = python(registry, ENVIRONMENT, env={"MODE": "test", "DEBUG": True, "LEVEL": 3}).result
    assert {name: seen.get(name) for name in ("MODE", "DEBUG", "LEVEL", "PROXY_HOST", "PATH")} == {
        "MODE": "test",
        "DEBUG": "true",
        "LEVEL": "3",
        "PROXY_HOST": "proxy_host",
        "PATH": os.environ["PATH"],
    }
    assert "SECRET" not in seen
    assert not [name for name in seen if name.startswith("NOETL_")]
    assert "MODE" not in python(registry, ENVIRONMENT).result, "the next call begins anew"
    shown = run(registry, "shell", {"command": "echo $PROXY_HOST $MODE", "env": {"MODE": "a b"}}).result
    assert shown["stdout"] == "proxy_host a b\n"


@pytest.mark.parametrize("env", [{"": "1"}, {"A=B": "1"}, {"A\0": "1"}, {"A": "x\0y"}])
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_variable_that_cannot_be_one_is_named(opened: Open, env: dict[str, str], kind: str) -> None:
    config = {"python": {"code": "result = 1"}, "shell": {"command": "echo 1"}}[kind]
    error = run(opened(), kind, {**config, "env": env}).error
    assert error is not None
    assert (error.kind, error.retryable) == ("client_error", False)
    assert error.message.startswith(f"env cannot have {next(iter(env))!r}: ")


def test_the_settings_of_user_code_are_read_and_refused_by_name() -> None:
    read = Settings.from_env(
        {
            "NOETL_PYTHON_ISOLATION": "Sandbox",
            "NOETL_PYTHON_INLINE": "1",
            "NOETL_PYTHON_ENV_ALLOW": "HTTP_PROXY, NO_PROXY",
        }
    )
    assert (read.python_isolation, read.python_inline, read.python_env_allow) == (
        "sandbox",
        True,
        ("HTTP_PROXY", "NO_PROXY"),
    )
    with pytest.raises(ConfigError, match="expected process or sandbox"):
        Settings.from_env({"NOETL_PYTHON_ISOLATION": "inline"})
    with pytest.raises(ConfigError, match="NOETL_SECRET_KEY is a setting of NoETL"):
        Settings.from_env({"NOETL_PYTHON_ENV_ALLOW": "A,NOETL_SECRET_KEY"})


# --- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "ending", "retryable"),
    [
        ("import os; os._exit(0)", "its process ended with exit status 0", False),
        ("import os; os._exit(137)", "its process ended with exit status 137", False),
        ("import ctypes; ctypes.string_at(0)", "its process was ended by SIGSEGV", False),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process was ended by SIGKILL", True),
        ("import os; os.abort()", "its process was ended by SIGABRT", False),
    ],
)
def test_code_whose_process_ends_says_how_and_whether_another_attempt_may_help(
    opened: Open, code: str, ending: str, retryable: bool
) -> None:
    registry = opened()
    error = python(registry, code).error
    assert error is not None
    assert (error.kind, error.type, error.message, error.retryable) == (
        "python",
        "NoResult",
        f"The code gave no result: {ending}.",
        retryable,
    )
    assert python(registry, "result = 1").result == 1


def test_200_mb_of_output_are_cut_and_the_result_is_there(opened: Open) -> None:
    outcome = python(opened(), "for _ in range(200): print('x' * (1 << 20))\nresult = 'done'")
    assert outcome.result == "done"
    assert len(outcome.meta["stdout"]) == 64 * 1024
    assert (outcome.meta["truncated"], outcome.meta["stdout_bytes"]) == (True, 200 * ((1 << 20) + 1))


@pytest.mark.full("a load")
def test_a_result_of_50_mb_comes_whole_and_a_larger_one_than_allowed_is_refused(opened: Open) -> None:
    outcome = python(opened(), "result = {'rows': ['x' * 1_000_000] * 50}")
    assert outcome.error is None
    assert sum(map(len, outcome.result["rows"])) == 50_000_000
    error = python(opened(), "result = {'rows': ['x' * 1_000_000] * 80}").error
    assert error is not None
    assert (error.kind, error.type, error.retryable) == ("limit", "LimitExceeded", False)
    assert "bytes of JSON, and 67,108,864 are allowed; return rows as a frame" in error.message


def test_libraries_that_reserve_address_space_work_within_the_memory_limit(opened: Open) -> None:
    pytest.importorskip("polars")
    code = (
        "import duckdb, polars\nresult = duckdb.sql('select 41 + 1').fetchall()[0][0]\nx = "
        "polars.DataFrame({'a': [1]})"
    )
    assert python(opened(memory_mb=1024), code).result == 42
    shared = "import mmap\nm = mmap.mmap(-1, 8 << 30)"
    assert python(opened(memory_mb=1024), shared).error is not None, "shared memory is bound as well"
