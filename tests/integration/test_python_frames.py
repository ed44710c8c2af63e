"""Frames of pandas, polars and Arrow as results and inputs of python tasks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.facts.outcome import Outcome
from noetl.facts.reference import Lazy, Retention, is_reference
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.code.tables import PARQUET, SPILL_BYTES
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry
from noetl.usecases.ports import Results
from tests.waiting import GUARD_S

INLINE = 4096
ROWS = [{"id": 1, "name": "a", "share": 0.5}, {"id": 2, "name": None, "share": None}]

#: `make(rows)` in each library, and how to get rows back.
LIBRARIES = {
    "pandas": ("import pandas\nmake = pandas.DataFrame", "json.loads(table.to_json(orient='records'))"),
    "polars": ("import polars\nmake = polars.from_dicts", "table.to_dicts()"),
    "arrow": ("import pyarrow\nmake = pyarrow.Table.from_pylist", "table.to_pylist()"),
}
#: Each call imports its library anew; what is said of one is as true of the others.
ONE_OF_LIBRARIES = [
    pytest.param(name, marks=[] if name == "pandas" else pytest.mark.full("pandas stands for it"))
    for name in LIBRARIES
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return open_results(f"file://{tmp_path_factory.mktemp('results')}")


@pytest.fixture(
    params=["process", pytest.param("sandbox", marks=pytest.mark.full("the same code, held tighter"))]
)
def isolation(request: pytest.FixtureRequest) -> Any:
    if request.param == "sandbox" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return request.param


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, results: Results) -> Iterator[Registry]:
    """One for all, so that calls of one execution share a child that has imported its libraries."""
    scratch = tmp_path_factory.mktemp("scratch")
    made = Registry(Services(scratch=scratch, results=results, inline_bytes=INLINE, python_inline=True))
    yield made
    made.close()
    assert list(scratch.iterdir()) == [], "nothing is left behind"


Run = Callable[..., Outcome]


@pytest.fixture
def run(registry: Registry) -> Run:
    def ran(
        code: str,
        *,
        isolation: str = "process",
        frames: str | None = None,
        execution: str = "7",
        **args: Any,
    ) -> Outcome:
        config = {"code": code} if frames is None else {"code": code, "frames": frames}
        where, spec = Where(execution, "r", "s"), {"isolation": isolation}
        return registry.run(Call("python", config, args, spec, where, "t", 1, "key", GUARD_S))

    return ran


def value(outcome: Outcome) -> Any:
    assert outcome.error is None, outcome.error
    return outcome.result


def table(results: Results, reference: Any) -> list[tuple[Any, ...]]:
    assert is_reference(reference)
    assert reference["meta"]["content_type"] == PARQUET
    with results.file(reference) as file:
        return duckdb.sql(f"SELECT * FROM read_parquet('{file}')").fetchall()


def kept(results: Results, rows: int) -> Any:
    """A reference to a table of so many rows, as another tool would leave it."""
    connection = duckdb.connect()
    file = f"/tmp/noetl-test-{os.getpid()}.parquet"
    connection.execute(
        f"COPY (SELECT i AS id, 'name ' || i AS name, i / 2 AS share FROM range({rows}) t(i)) TO "
        f"'{file}' (FORMAT parquet)"
    )
    try:
        return results.put_file(Path(file), PARQUET, Retention("7"))
    finally:
        os.unlink(file)


# --- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ONE_OF_LIBRARIES)
def test_a_small_frame_is_a_list_of_mappings_and_a_large_one_a_reference_to_parquet(
    run: Run, results: Results, library: str, isolation: str
) -> None:
    make, _ = LIBRARIES[library]
    assert value(run(f"{make}\nresult = make(rows)", rows=ROWS, isolation=isolation)) == ROWS
    large = f"{make}\nresult = {{'data': make([{{'id': i, 'name': 'n' * 9}} for i in range(n)]), 'count': n}}"
    result = value(run(large, n=5000, isolation=isolation))
    assert result["count"] == 5000
    assert result["data"]["ref"].startswith("noetl://results/executions/7/")
    rows = table(results, result["data"])
    assert (len(rows), rows[0], rows[-1]) == (5000, (0, "n" * 9), (4999, "n" * 9))


def test_a_frame_in_the_workers_own_process_is_the_same(run: Run, results: Results) -> None:
    code = (
        "import pandas\nresult = {'small': pandas.DataFrame(rows), 'large': pandas.DataFrame({'x': "
        "range(9000)})}"
    )
    result = value(run(code, rows=ROWS, isolation="inline"))
    assert result["small"] == ROWS
    assert len(table(results, result["large"])) == 9000


def test_the_size_decides_at_the_inline_limit_and_not_by_the_number_of_rows(run: Run) -> None:
    code = "import pandas\nresult = pandas.DataFrame({'text': ['x' * size]})"
    assert value(run(code, size=INLINE - 20)) == [{"text": "x" * (INLINE - 20)}]
    assert is_reference(value(run(code, size=INLINE)))


def test_several_frames_and_the_same_frame_twice_stand_where_they_stood(run: Run) -> None:
    code = (
        "import pandas, polars\n"
        "a, b = pandas.DataFrame({'x': [1]}), polars.DataFrame({'y': [2]})\n"
        "result = {'first': [a, {'second': b}], 'again': (a, b), 'rest': 3}"
    )
    x, y = [{"x": 1}], [{"y": 2}]
    assert value(run(code)) == {"first": [x, {"second": y}], "again": [x, y], "rest": 3}


def test_values_of_frames_become_json_as_those_of_sql_tools_do(run: Run) -> None:
    code = (
        "import datetime as d, decimal, numpy, pandas\n"
        "result = pandas.DataFrame({\n"
        "  'time': pandas.to_datetime(['2026-01-02 03:04:05.123456789', None]),\n"
        "  'zone': pandas.to_datetime(['2026-01-02 03:04:05+02:00', None], utc=True),\n"
        "  'day': [d.date(2026, 1, 2), None],\n"
        "  'exact': [decimal.Decimal('1.50'), decimal.Decimal('2')],\n"
        "  'float': [numpy.nan, 1.5],\n"
        "  'whole': pandas.array([1, None], dtype='Int64'),\n"
        "  'sort': pandas.Categorical(['u', 'v']),\n"
        "  'yes': [True, False],\n"
        "  'bytes': [b'ab', None],\n"
        "  'nested': [{'k': [1, 2]}, None],\n"
        "})"
    )
    assert value(run(code)) == [
        {
            "time": "2026-01-02T03:04:05.123456",
            "zone": "2026-01-02T01:04:05+00:00",
            "day": "2026-01-02",
            "exact": 1.5,
            "float": None,
            "whole": 1,
            "sort": "u",
            "yes": True,
            "bytes": "YWI=",
            "nested": {"k": [1, 2]},
        },
        {
            "time": None,
            "zone": None,
            "day": None,
            "exact": 2,
            "float": 1.5,
            "whole": None,
            "sort": "v",
            "yes": False,
            "bytes": None,
            "nested": None,
        },
    ]
    infinite = "import polars\nresult = polars.DataFrame({'x': [float('nan'), float('inf'), 1.0]})"
    assert value(run(infinite)) == [{"x": None}, {"x": None}, {"x": 1.0}]


@pytest.mark.full("forms of frames, an import of pandas each")
@pytest.mark.parametrize(
    ("frame", "rows"),
    [
        ("pandas.DataFrame({'x': [1]}, index=[9])", [{"x": 1}]),
        ("pandas.DataFrame({'x': [1]}, index=pandas.Index([9], name='key'))", [{"key": 9, "x": 1}]),
        ("pandas.DataFrame({'g': ['a', 'a'], 'x': [1, 2]}).groupby('g').sum()", [{"g": "a", "x": 3}]),
        ("pandas.DataFrame([[1, 2]], columns=pandas.MultiIndex.from_tuples([('a', 'x'), ('a', 'y')]))",
         [{"a_x": 1, "a_y": 2}]),
        ("pandas.DataFrame([[1, 2]])", [{"0": 1, "1": 2}]),
        ("pandas.DataFrame()", []),
        ("pandas.DataFrame({'x': []})", []),
        ("pyarrow.RecordBatch.from_pylist([{'x': 1}])", [{"x": 1}]),
        ("type('Own', (pandas.DataFrame,), {})({'x': [1]})", [{"x": 1}]),
    ],
)  # fmt: skip
def test_an_index_is_kept_where_it_has_a_name_and_columns_are_called_by_text(
    run: Run, frame: str, rows: list[Any]
) -> None:
    assert value(run(f"import pandas, pyarrow\nresult = {frame}")) == rows


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import pandas\nresult = {'rows': pandas.DataFrame({'x': [1, 'a', {2}]})}",
         "result.rows is a frame (pandas) that Parquet cannot hold: "),
        ("import pandas\nresult = [pandas.DataFrame([[1, 2]], columns=['x', 'x'])]",
         "result[0] is a frame with two columns called 'x'; rename one."),
        ("import polars\nresult = polars.DataFrame({'x': [object()]})",
         "result is a frame (polars) that Parquet cannot hold: "),
        ("import pandas\nresult = {'a': pandas.DataFrame({'x': [1]}), 'b': float('nan')}",
         "result.b is NaN, which JSON cannot express."),
    ],
)  # fmt: skip
def test_a_frame_that_cannot_be_kept_is_named_by_its_path(run: Run, code: str, message: str) -> None:
    outcome = run(code)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.type) == ("python", "NotJson")
    assert outcome.error.message.startswith(message)


def test_a_table_that_is_not_a_plain_file_is_not_followed(run: Run, results: Results, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    code = (
        "import os, pandas\n"
        f"folder, secret = os.getcwd() + '.tables', {str(tmp_path / 'secret')!r}\n"
        "def link(self, path, **more): os.symlink(secret, path)\n"
        "pandas.DataFrame.to_parquet = link\n"
        "result = pandas.DataFrame({'x': range(9000)})"
    )
    outcome = run(code, execution="8")
    assert outcome.error is not None
    assert "is no plain file" in outcome.error.message
    assert "executions/8" not in results.places()


def test_the_runner_imports_no_library_that_the_code_does_not(run: Run) -> None:
    code = (
        "import sys\nresult = [n for n in ('pandas', 'polars', 'pyarrow', 'duckdb', 'numpy') if n in "
        "sys.modules]"
    )
    assert value(run(code, execution="fresh")) == []
    assert value(run(code, execution="fresh", frames="polars", rows=ROWS)) == ["polars"]


# --- inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ONE_OF_LIBRARIES)
def test_a_table_comes_as_a_frame_where_the_task_says_so(
    run: Run, results: Results, library: str, isolation: str
) -> None:
    _, rows = LIBRARIES[library]
    code = (
        f"import json\nresult = [type(table).__module__.split('.')[0], {rows}, n, names, "
        "input_data['table'] is table]"
    )
    module = {"arrow": "pyarrow"}.get(library, library)
    given = {"n": 3, "names": ["a"], "isolation": isolation, "frames": library}
    small = value(run(code, table=ROWS, **given))
    assert small == [module, ROWS, 3, ["a"], True]
    large = value(run(code, table=kept(results, 3), **given))
    assert large == [
        module,
        [{"id": i, "name": f"name {i}", "share": i / 2} for i in range(3)],
        3,
        ["a"],
        True,
    ]
    assert value(run("result = len(table)", table=[], **given)) == 0


def test_a_table_of_which_a_frame_is_made_does_not_pass_through_the_workers_memory(
    run: Run, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = kept(results, 100_000)

    def refuse(*_: Any) -> Any:
        raise AssertionError("the worker loaded the table")

    monkeypatch.setattr(results, "load", refuse)
    code = "result = {'sum': int(table['id'].sum()), 'columns': list(table.columns)}"
    for library in ("pandas", "polars"):
        assert value(run(code, table=reference, frames=library)) == {
            "sum": 4_999_950_000,
            "columns": ["id", "name", "share"],
        }


def test_a_main_is_handed_frames(run: Run, results: Results) -> None:
    code = "def main(table, **rest):\n    return [len(table.columns), sorted(rest)]"
    assert value(run(code, table=kept(results, 3), other=1, frames="pandas")) == [3, ["other"]]


@pytest.mark.parametrize("library", ONE_OF_LIBRARIES)
def test_a_library_that_is_missing_fails_the_task_and_says_what_to_install(
    registry: Registry, run: Run, library: str, results: Results
) -> None:
    module = {"arrow": "pyarrow"}.get(library, library)
    # Hidden from the call by the call before it, in the same child.
    value(run(f"import sys\nsys.modules[{module!r}] = None", execution=f"no {library}"))
    for given in (ROWS, kept(results, 2)):
        outcome = run("result = 1", table=given, frames=library, execution=f"no {library}")
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.type, outcome.error.retryable) == (
            "python",
            "ModuleNotFoundError",
            False,
        )
        assert outcome.error.message == (
            f"`frames: {library}` needs {module}, which is not installed where this task runs: "
            f"install it there with `pip install {module}`."
        )
        value(run(f"import sys\nsys.modules[{module!r}] = None", execution=f"no {library}"))


def test_rows_that_fit_into_no_frame_name_their_input(run: Run) -> None:
    outcome = run("result = 1", table=[{"x": 1}, {"x": "a"}], frames="arrow")
    assert outcome.error is not None
    assert outcome.error.message.startswith("The input 'table' cannot come as a frame (arrow): ")


def test_a_sort_of_frame_that_there_is_not_is_refused(run: Run) -> None:
    outcome = run("result = 1", frames="panda")
    assert outcome.error is not None
    assert outcome.error.message.startswith("'frames' of the python task is not usable")


# --- large inputs --------------------------------------------------------------------------------


def test_references_in_inputs_are_opened_in_order_and_large_ones_read_by_the_code(
    run: Run, results: Results, isolation: str
) -> None:
    small = results.put({"a": [1]}, Retention("7"))
    large = results.put(["x" * 1000] * (SPILL_BYTES // 1000 + 10), Retention("7"))
    pages = {
        "kind": "manifest",
        "count": 3,
        "parts": [
            {"count": 1, "items": [{"inner": small}]},
            {"count": 2, "ref": results.put([2, 3], Retention("7"))},
        ],
    }
    code = (
        "result = [list(args), plain, small, len(large), set(large) == {'x' * 1000}, mixed['count'], "
        "mixed['of']['rows'] == large, pages]"
    )
    mixed = {"count": 2, "of": {"rows": large, "ünï": [1, {"q": None}]}}
    result = value(
        run(code, plain=0, large=large, small=small, mixed=mixed, pages=pages, isolation=isolation)
    )
    count = SPILL_BYTES // 1000 + 10
    assert result == [
        ["plain", "large", "small", "mixed", "pages"],
        0,
        {"a": [1]},
        count,
        True,
        2,
        True,
        [{"inner": {"a": [1]}}, 2, 3],
    ]


def test_a_list_that_is_read_lazily_is_written_for_the_code_page_by_page(run: Run, results: Results) -> None:
    class Pages(Lazy):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("looked into")

        def pages(self) -> Iterator[list[Any]]:
            yield [1, {"x": results.put("kept", Retention("7"))}]
            yield [3, 4]

    assert value(run("result = rows", rows=Pages())) == [1, {"x": "kept"}, 3, 4]


def test_an_input_whose_result_is_gone_is_named(run: Run) -> None:
    gone = {"kind": "result_ref", "ref": f"noetl://results/executions/7/{'0' * 64}.json"}
    outcome = run("result = rows", rows=gone)
    assert outcome.error is not None
    assert outcome.error.message.startswith("The input 'rows': The result 000")


# --- in a playbook -------------------------------------------------------------------------------


def test_a_large_frame_goes_from_step_to_step_in_a_playbook(tmp_path: Path, run_in: Any) -> None:
    playbook = """
        workflow:
          - step: start
            tool:
              kind: python
              code: |
                import pandas
                result = {"rows": pandas.DataFrame({"id": range(20000), "name": "n"}), "count": 20000}
            next: sum
          - step: sum
            tool:
              kind: python
              frames: pandas
              input: {count: "{{ start.count }}"}
              code: result = count
            next: end
          - step: end
            tool: {kind: noop, input: {count: "{{ sum }}"}}
        """
    with bootstrap.local(Settings(home=tmp_path / "home")) as rt:
        report = run_in(rt)(playbook)
        assert report["status"] == "completed", report["error"]
        assert report["result"] == {"count": 20000}
        (place,) = rt.results.places()
        assert place == f"executions/{report['execution_id']}"


@pytest.mark.full("a load")
def test_a_frame_costs_the_worker_nothing_that_grows_with_it(tmp_path: Path) -> None:
    # In a process of its own: what others loaded before must not count.
    script = f"""
import json, resource, sys
from pathlib import Path
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
registry = Registry(Services(scratch=Path({str(tmp_path)!r}), results=open_results("file://{tmp_path}/results")))
def run(rows):
    code = "import numpy, pandas\\nresult = pandas.DataFrame({{'x': numpy.random.rand(rows)}})"
    outcome = registry.run(Call("python", {{"code": code}}, {{"rows": rows}}, {{}}, Where("1", "r", "s"), "t", 1, "k", 600))
    assert outcome.error is None, outcome.error
    return outcome.result["meta"]["bytes"]
run(50_000)
before = peak()
size = run(4_000_000)
registry.close()
print(json.dumps([before, peak(), size]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=GUARD_S
    )
    before, after, size = json.loads(done.stdout)
    assert size > 30_000_000
    assert after - before < 12, f"{before} MB before, {after} MB after a table of {size} bytes"
