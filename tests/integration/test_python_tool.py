"""kind: python, in real children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.code.python import Python
from noetl.tools.code.runner.client import Runner
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry
from tests.gates import Gate
from tests.waiting import GUARD_S, until


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    made = Registry(Services(scratch=tmp_path_factory.mktemp("scratch"), file_mb=20, result_limit=1_000_000))
    yield made
    made.close()


def run(
    registry: Registry,
    code: str,
    /,
    *,
    deadline_s: float = GUARD_S,
    spec: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    libs: Any = None,
    **args: Any,
) -> Outcome:
    config = {"code": code} if libs is None else {"code": code, "libs": libs}
    where = Where("1", "r", "s")
    lazily = None if context is None else lambda: context
    return registry.run(Call("python", config, args, spec or {}, where, "t", 1, "key", deadline_s, lazily))


def result(registry: Registry, code: str, /, **more: Any) -> Any:
    outcome = run(registry, code, **more)
    assert outcome.error is None
    return outcome.result


def error(registry: Registry, code: str, /, **more: Any) -> ErrorInfo:
    outcome = run(registry, code, **more)
    assert outcome.error is not None
    assert outcome.result is None
    return outcome.error


# --- what code yields ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("result = a + b", 3),
        ("pass", None),
        ("result = None", None),
        ("def main(a, b): return a * 10 + b", 12),
        ("def main(b, *, missing='default'): return [b, missing]", [2, "default"]),
        ("def main(a, **rest): return [a, rest]", [1, {"b": 2}]),
        ("def main(a, /, b): return [a, b]", [1, 2]),
        ("def main(input_data): return input_data", {"a": 1, "b": 2}),
        ("def main(): return 'alone'", "alone"),
        ("result = 'wins'\ndef main(): return 'loses'", "wins"),
        ("async def main(a):\n  import asyncio\n  await asyncio.sleep(0)\n  return a", 1),
        ("result = [input_data, args]", [{"a": 1, "b": 2}] * 2),
        ("a = a + 1\nresult = a", 2),
        ("x = 5\ndef helper(): return x + a\nresult = helper()", 6),
        ("result = [x for x in range(3) if x < b]", [0, 1]),
        ("import math\ndef area(r): return math.floor(math.pi * r)\nresult = area(b)", 6),
        (
            "from dataclasses import dataclass, asdict\n@dataclass\nclass P:\n  x: 'int'\nresult = "
            "asdict(P(1))",
            {"x": 1},
        ),
        ("result = {'status': 'error', 'message': 'data'}", {"status": "error", "message": "data"}),
        ("result = __name__ == '__main__'", False),
    ],
)
def test_the_result_is_what_the_code_says(registry: Registry, code: str, value: Any) -> None:
    assert result(registry, code, a=1, b=2) == value


def test_an_input_called_result_gives_way_to_main(registry: Registry) -> None:
    assert result(registry, "def main(result): return result + 1", result=1) == 2
    assert result(registry, "result = result + 1", result=1) == 2


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("return a", 1),
        ("x = 5\ndef helper(): return x\nx = 6\nreturn helper()", 6),
        ("if a == 1:\n  return 'early'\nresult = 'late'", "early"),
        ("if a == 2:\n  return 'early'\nresult = 'late'", "late"),
        ("for i in range(9):\n  while True:\n    if i == 4: return i\n    break", 4),
        ("try:\n  return 'try'\nexcept BaseException:\n  return 'swallowed'\nfinally:\n  y = 1", "try"),
        ("try:\n  1 / 0\nexcept ZeroDivisionError as e:\n  return type(e).__name__", "ZeroDivisionError"),
        ("import contextlib\nwith contextlib.suppress(BaseException):\n  return 'out'\nresult = 'in'", "out"),
        ("total: int = 1\ndef add():\n  global total\n  total += 1\nadd()\nreturn total", 2),
        (
            "from __future__ import annotations\nimport os.path as p\nreturn [p.basename('/x/y'), (z := "
            "3), z]",
            ["y", 3, 3],
        ),
        ("match a:\n  case 1 as one: return one", 1),
        ("[q := n for n in range(3)]\ndef f(): return q\nreturn f()", 2),
        ("class C:\n  v = a\ndef f(): return C.v\nreturn f()", 1),
        ("return", None),
        ("result = 1\nreturn None", None),
        ("global g\ng = 2\ndef f(): return g\nreturn f()", 2),
        ("s = '''\n  kept\n'''\nreturn s", "\n  kept\n"),
    ],
)
def test_a_top_level_return_is_the_result_and_its_names_are_globals(
    registry: Registry, code: str, value: Any
) -> None:
    assert result(registry, code, a=1) == value


def test_code_that_names_context_sees_all_of_it_and_other_code_never_asks(registry: Registry) -> None:
    context = {"workload": {"x": 1}, "ctx": {"y": 2}}
    assert result(registry, "result = context['workload']['x'] + context['ctx']['y']", context=context) == 3

    def must_not_be_asked() -> Mapping[str, Any]:
        raise AssertionError("the context was materialised for code that does not name it")

    call = Call(
        "python", {"code": "result = 1"}, {}, {}, Where("1", "r", "s"), "t", 1, "k", 5, must_not_be_asked
    )
    assert registry.run(call).result == 1


@pytest.mark.parametrize(
    ("libs", "code", "value"),
    [
        (["math", "os.path"], "result = [math.floor(2.5), os.path.basename('/a/b')]", [2, "b"]),
        ({"m": "math", "join": "os.path.join"}, "result = [m.floor(2.5), join('a', 'b')]", [2, "a/b"]),
        (["math as m", "os.path.join as join"], "result = [m.floor(2.5), join('a', 'b')]", [2, "a/b"]),
        ([], "result = 1", 1),
    ],
)
def test_libs_are_imported_before_the_code_runs(registry: Registry, libs: Any, code: str, value: Any) -> None:
    assert result(registry, code, libs=libs) == value


def test_a_lib_that_is_not_installed_is_named(registry: Registry) -> None:
    failure = error(registry, "result = 1", libs=["no_such_library"])
    assert (failure.kind, failure.type) == ("python", "ModuleNotFoundError")
    assert "'no_such_library' of libs is not installed" in failure.message
    assert "with `pip install no_such_library`, or the package that holds it." in failure.message
    below = error(registry, "result = 1", libs={"x": "no_such_library.inner"})
    assert "(no module named 'no_such_library')" in below.message
    assert "`pip install no_such_library`" in below.message


def test_a_name_that_a_library_does_not_have_is_reported_with_the_nearest(registry: Registry) -> None:
    failure = error(registry, "result = 1", libs={"join": "os.path.jion"})
    assert failure.type == "ImportError"
    assert (
        failure.message
        == "'os.path.jion' of libs does not exist: os.path has no 'jion'; did you mean 'os.path.join'?"
    )
    assert result(registry, "result = 2") == 2, "nobody else is harmed"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(1, 2)", [1, 2]),
        ("{1: 'a', None: 'b', True: 'c'}", {"1": "c", "null": "b"}),
        ("datetime.datetime(2026, 1, 2, 3, 4)", "2026-01-02T03:04:00"),
        ("datetime.date(2026, 1, 2)", "2026-01-02"),
        (
            "[str(decimal.Decimal('1.50')), decimal.Decimal('1.50'), decimal.Decimal('3')]",
            ["1.50", Decimal("1.50"), 3],
        ),
        ("uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("pathlib.Path('/a')", "/a"),
        ("collections.Counter('aab')", {"a": 2, "b": 1}),
        ("'é\\u2028\\0'", "é\u2028\0"),
        ("2 ** 70", 2**70),
    ],
)
def test_obvious_values_become_json(registry: Registry, expression: str, value: Any) -> None:
    modules = "import collections, datetime, decimal, pathlib, uuid\n"
    assert result(registry, f"{modules}result = {expression}") == value


def test_numpy_values_become_numbers_and_lists(registry: Registry) -> None:
    pytest.importorskip("numpy")
    code = (
        "import numpy as np\nresult = [np.int64(3), np.float64(1.5), np.bool_(True), np.arange(3), "
        "np.float32(2)]"
    )
    assert result(registry, code) == [3, 1.5, True, [0, 1, 2], 2.0]
    failure = error(registry, "import numpy as np\nresult = {'a': np.array([1.0, np.nan])}")
    assert failure.message == "result.a[1] is NaN, which JSON cannot express."


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{'items': [1, {2}]}", "result.items[1] is a set, which JSON cannot express; make it a list."),
        (
            "{'a b': b'x'}",
            "result['a b'] is bytes, which JSON cannot express; decode it or encode it in base64.",
        ),
        ("float('nan')", "result is NaN, which JSON cannot express."),
        ("{'x': print}", "result.x is of type builtin_function_or_method, which has no JSON form."),
        ("{(1, 2): 3}", "result has the key (1, 2), a tuple; keys must be text."),
        ("{float('nan'): 3}", "A key of result is NaN, which JSON cannot express."),
        ("10 ** 5000", "result is an integer with more than 4300 digits."),
        ("(x := []).append(x) or x", "result is nested deeper than 200 levels, or contains itself."),
        ("'\\ud800'", "result is text with a lone surrogate, which is no Unicode."),
        (
            "'x' * 2_000_000",
            "The result is 2,000,002 bytes of JSON, and 1,000,000 are allowed; return rows as a frame (pandas, "
            "polars, Arrow), write to a file, or move rows with `kind: transfer`.",
        ),
    ],
)
def test_a_result_that_is_not_json_names_the_value(registry: Registry, expression: str, message: str) -> None:
    assert error(registry, f"result = {expression}").message == message


def test_an_exception_is_reported_with_its_line_and_the_frames_of_the_code(registry: Registry) -> None:
    code = "import json\n\ndef read(text):\n    return json.loads(text)\n\nprint('before')\nread('{')\n"
    outcome = run(registry, code)
    failure = outcome.error
    assert failure is not None
    assert (failure.kind, failure.type, failure.line, failure.retryable) == (
        "python",
        "JSONDecodeError",
        4,
        False,
    )
    assert failure.message.startswith("Expecting property name")
    assert failure.traceback is not None
    assert 'File "<code>", line 7' in failure.traceback
    assert "return json.loads(text)" in failure.traceback
    assert "decoder.py" not in failure.traceback
    assert "python_code.py" not in failure.traceback
    assert outcome.meta["stdout"] == "before\n"


@pytest.mark.parametrize(
    ("code", "kind", "type_", "line", "message"),
    [
        ("assert a == 2, 'a must be 2'", "python", "AssertionError", 1, "a must be 2"),
        ("x = 1\nassert x == 2", "python", "AssertionError", 2, "The code raised AssertionError without "
                                                                "a message."),
        ("\nx = (", "python", "SyntaxError", 2, "'(' was never closed"),
        ("if a:\nx = 1", "python", "IndentationError", 2, "expected an indented block after 'if' "
                                                          "statement on line 1"),
        ("class C:\n  return 1", "python", "SyntaxError", 2, "'return' outside function"),
        ("import sys\nsys.exit(0)", "python", "SystemExit", 2, "The code called exit(0) before giving a "
                                                               "result."),
        ("raise KeyboardInterrupt", "python", "KeyboardInterrupt", 1, "The code raised KeyboardInterrupt."),
        ("def f(): f()\nf()", "python", "RecursionError", 1, "maximum recursion depth exceeded"),
        ("result = undefined_name", "python", "NameError", 1, "name 'undefined_name' is not defined"),
        ("def main(missing): pass", "python", "TypeError", None,
         "main() needs 'missing', which is not among the inputs of the task (a)."),
        ("if a:\n  return 1 / 0", "python", "ZeroDivisionError", 2, "division by zero"),
        ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "python", "E", 3,
         "(its message could not be read: ValueError)"),
        ("f = open('big', 'wb')\nwhile True: f.write(b'x' * 1_000_000)", "limit", "OSError", 2,
         "The code wrote a file larger than the 20 MB that are allowed."),
        ("x = bytearray(4 << 30)", "limit", "MemoryError", 1,
         "The code asked for more memory than its 2048 MB (spec.memory_mb)."),
        ("import os; os._exit(0)", "python", "NoResult", None,
         "The code gave no result: its process ended with exit status 0."),
    ],
)  # fmt: skip
def test_a_failure_says_what_and_where(
    registry: Registry, code: str, kind: str, type_: str, line: int | None, message: str
) -> None:
    failure = error(registry, code, a=1)
    assert (failure.kind, failure.type, failure.line) == (kind, type_, line)
    assert failure.message == message


def test_a_deep_recursion_has_a_readable_traceback(registry: Registry) -> None:
    failure = error(registry, "def f(n): return f(n + 1) + g(n)\ndef g(n): return 1\nf(0)")
    assert failure.traceback is not None
    assert len(failure.traceback) < 17_000


def test_a_busy_loop_ends_at_its_deadline_with_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is too late as soon as the code is in its loop.
    looping = tmp_path / "looping"
    late = partial(Runner, clock=lambda: 1e9 if looping.exists() else 0.0)
    monkeypatch.setattr("noetl.tools.code.user_code.shared_runner", late)
    registry = Registry(Services(scratch=tmp_path / "scratch"))
    code = f"print('step 1', flush=True)\nopen({str(looping)!r}, 'w').close()\nwhile True: pass"
    outcome = run(registry, code, deadline_s=0.4)
    registry.close()
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)
    assert (
        outcome.error.message
        == "The code was ended at its deadline: it took longer than 0.4s (spec.timeout)."
    )
    assert outcome.meta["stdout"] == "step 1\n"


def test_output_that_is_too_long_is_cut_and_said_so(registry: Registry) -> None:
    outcome = run(registry, "print('y' * 100_000)")
    assert outcome.ok
    assert len(outcome.meta["stdout"]) == 64 * 1024
    assert (outcome.meta["truncated"], outcome.meta["stdout_bytes"]) == (True, 100_001)
    assert "stderr" not in outcome.meta


def test_memory_mb_of_spec_bounds_a_call(registry: Registry) -> None:
    assert "300 MB" in error(registry, "x = bytearray(400 << 20)", spec={"memory_mb": 300}).message
    assert result(registry, "x = bytearray(400 << 20)", spec={"memory_mb": 900}) is None
    assert error(registry, "x = 1", spec={"memory_mb": "lots"}).kind == "client_error"


def test_a_sandbox_without_bubblewrap_is_refused_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    tool = Python(Services(scratch=tmp_path, python_isolation="sandbox"))
    call = Call("python", {}, {}, {}, Where("1", "r", "s"), "t", 1, "key")
    with pytest.raises(ToolError, match="bubblewrap"):
        tool.run(call, tool.declaration.config_model(code="result = 1"))
    tool.close()


def interruptible(code: str) -> Call:
    return Call("python", {"code": code}, {}, {}, Where("1", "r", "s"), "t", 1, "key", 3600)


def test_a_call_that_is_interrupted_ends(registry: Registry, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    call = interruptible(gate.python())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(registry.run, call)
        until(gate.arrived, "the code to run")
        registry.interrupt(call)
    assert not running.result().ok
    assert run(registry, "result = 1").result == 1, "the next call is not harmed"


def test_a_call_that_is_interrupted_before_it_starts_does_not_run(registry: Registry, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    call = interruptible(gate.python())
    registry.interrupt(call)
    assert not registry.run(call).ok
    assert gate.arrived() == 0
