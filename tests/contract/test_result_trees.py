"""Large values in a result store: kept in parts, read where somebody looks, and the same when all
is read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.errors import BadRequest, NotFound
from noetl.facts.reference import Lazy, Retention, is_reference, open_references
from noetl.results import FileResults, tree
from tests.budget import examples

KEEP = Retention("7")
NDJSON = "application/x-ndjson"


@pytest.fixture
def results(tmp_path: Path) -> FileResults:
    """In memory: what is kept is the same everywhere."""
    return FileResults(f"memory://{uuid4().hex}", scratch=tmp_path / "scratch")


@pytest.fixture(
    params=["file", "memory", pytest.param("s3", marks=pytest.mark.full("test_results.py has S3"))]
)
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> FileResults:
    """In a store of each kind in turn: where it matters what is read of an object, and where they
    lie."""
    match request.param:
        case "file":
            url = str(tmp_path / "results")
        case "memory":
            url = f"memory://{uuid4().hex}"
        case _:
            url = f"{request.getfixturevalue('s3_url')}/below"
    return FileResults(url, scratch=tmp_path / "scratch")


def rows_of(count: int) -> list[Any]:
    return [
        {"id": number, "name": f"name {number}", "x": number / 7, "none": None} for number in range(count)
    ]


def nested(count: int) -> list[Any]:
    return [{"id": number, "tags": ["a", {"b": number}]} for number in range(count)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Values of a few characters are large."""
    with monkeypatch.context() as patch:
        patch.setattr(tree, "NODE_BYTES", 48)
        patch.setattr(tree, "TABLE_BYTES", 96)
        yield


def test_rows_become_a_table_and_are_read_lazily(everywhere: FileResults) -> None:
    results = everywhere
    rows = rows_of(30_000)
    reference = results.put(rows, KEEP)
    assert reference["ref"].endswith(".parquet")
    assert reference["meta"]["rows"] == 30_000
    assert reference["meta"]["bytes"] == len(json.dumps(rows, separators=(",", ":")))
    loaded = results.load(reference)
    assert isinstance(loaded, Lazy)
    assert len(loaded) == 30_000
    assert loaded[3] == rows[3]
    assert loaded[-1] == rows[-1]
    assert loaded[20_475:20_485] == rows[20_475:20_485]
    assert loaded[::10_000] == rows[::10_000]
    assert [len(page) for page in loaded.pages()] == [20_480, 9_520]
    assert loaded.whole() == rows
    for index in (30_000, -30_001):
        with pytest.raises(IndexError):
            loaded[index]


def test_a_list_that_is_not_a_table_becomes_pages(results: FileResults) -> None:
    items = nested(20_000)
    loaded = results.load(results.put(items, KEEP))
    assert isinstance(loaded, Lazy)
    assert (len(loaded), loaded[3], loaded[-1]) == (20_000, items[3], items[-1])
    pages = list(loaded.pages())
    assert len(pages) > 2
    assert [item for page in pages for item in page] == items


def test_members_above_the_size_of_a_node_are_objects_of_their_own(results: FileResults) -> None:
    value = {"status": 200, "data": {"rows": rows_of(5_000), "text": "x" * 300_000, "n": 1}, "headers": {}}
    reference = results.put(value, KEEP)
    assert reference["preview"]["keys"] == ["status", "data", "headers"]
    root = results.load(reference)
    assert list(root) == ["status", "data", "headers"]
    assert root["status"] == 200
    data = results.load(root["data"])
    assert data["n"] == 1
    assert is_reference(data["rows"])
    assert is_reference(data["text"])
    assert results.load(data["rows"])[3] == value["data"]["rows"][3]
    assert open_references(reference, results.load) == value


def test_a_large_element_of_a_list_is_an_object_of_its_own(results: FileResults) -> None:
    items = [1, "x" * 300_000, {"y": ["z" * 400_000, 2]}, 3]
    loaded = results.load(results.put(items, KEEP))
    assert (loaded[0], loaded[3]) == (1, 3)
    assert is_reference(loaded[1])
    assert open_references(loaded[2], results.load) == items[2]


def test_looking_at_one_row_reads_no_other_page(tmp_path: Path) -> None:
    results = FileResults(str(tmp_path))
    items = nested(20_000)
    reference = results.put({"big": {"data": items}}, KEEP)
    texts = [gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.gz")]
    (manifest,) = (json.loads(text) for text in texts if text.startswith(b'{"kind":"manifest"'))
    for part in manifest["parts"][1:]:
        (tmp_path / f"{part['ref']['ref'].removeprefix('noetl://results/')}.gz").write_bytes(b"damaged")
    again = FileResults(str(tmp_path))
    assert again.load(again.load(again.load(reference)["big"])["data"])[3] == items[3]
    with pytest.raises(NotFound, match="damaged"):
        open_references(reference, again.load)


def test_all_parts_lie_in_the_place_of_their_root_and_go_with_it(everywhere: FileResults) -> None:
    results = everywhere
    reference = results.put({"a": rows_of(20_000), "b": nested(12_000)}, Retention("9", "step"))
    assert list(results.places()) == ["running/9"]
    assert results.remove("running/9") > 3
    assert list(results.places()) == []
    with pytest.raises(NotFound, match="gone"):
        FileResults.load(results, {**reference, "ref": reference["ref"].replace("running/9", "running/8")})


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": 1}, {"a": 1.0}],
        [{"a": 1}, {"a": True}],
        [{"a": 1 << 63}],
        [{"a": 1, "A": 2}],
        [{"": 1}],
        [{"a\0b": 1}],
        [{}],
        [{"a": [1]}],
        [{"a": 1}, [1]],
    ],
)
@pytest.mark.usefixtures("small")
def test_rows_that_a_table_would_change_are_no_table(results: FileResults, rows: list[Any]) -> None:
    rows = rows * 40
    reference = results.put(rows, KEEP)
    assert reference["ref"].endswith(".json")
    found = open_references(reference, results.load)
    assert json.dumps(found) == json.dumps(rows)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(TEXT, inner, max_size=6),
    max_leaves=60,
)


def _rows(columns: dict[str, int]) -> st.SearchStrategy[list[Any]]:
    kinds = [
        st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.booleans(),
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.none(),
    ]
    row = st.tuples(*(kinds[kind] for kind in columns.values()))
    return st.lists(row.map(lambda values: dict(zip(columns, values, strict=True))), min_size=3, max_size=30)


TABLES = st.dictionaries(TEXT, st.integers(0, 4), min_size=1, max_size=5).flatmap(_rows)


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=VALUES | TABLES | st.fixed_dictionaries({"rows": TABLES, "rest": VALUES}))
@pytest.mark.usefixtures("small")
def test_what_was_kept_in_parts_is_the_same_when_all_is_read(tmp_path: Path, value: Any) -> None:
    results = _shared(tmp_path)
    found = open_references(results.put(value, KEEP), results.load)
    assert json.dumps(found) == json.dumps(value)


_SHARED: dict[Path, FileResults] = {}


def _shared(root: Path) -> FileResults:
    """One store for all examples: opening its database takes longer than an example."""
    return _SHARED.setdefault(root, FileResults(f"memory://{uuid4().hex}", scratch=root))


@pytest.fixture
def lines(results: FileResults, tmp_path: Path) -> tuple[Any, list[Any]]:
    items = [{"id": number, "text": f"t{number}" * 20} for number in range(20_000)]
    path = tmp_path / "lines"
    path.write_text("\n\n".join(json.dumps(item) for item in items))
    return results.put_file(path, NDJSON, KEEP), items


def test_lines_of_json_are_read_lazily(results: FileResults, lines: tuple[Any, list[Any]]) -> None:
    reference, items = lines
    assert reference["meta"]["rows"] == 20_000
    for given_reference in (reference, {"kind": "result_ref", "ref": reference["ref"]}):
        loaded = results.load(given_reference)
        assert isinstance(loaded, Lazy)
        assert len(loaded) == 20_000
        assert (loaded[0], loaded[7_777], loaded[-1]) == (items[0], items[7_777], items[-1])
        assert len(list(loaded.pages())) > 2
        assert loaded.whole() == items


def test_lines_of_json_are_handed_out_as_the_file_that_they_were(
    results: FileResults, lines: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    with results.file(lines[0]) as path:
        assert path.read_bytes() == (tmp_path / "lines").read_bytes()


def test_a_line_that_is_not_json_is_named(results: FileResults, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"a": 1}\n{"a":\n')
    loaded = results.load(results.put_file(tmp_path / "lines", NDJSON, KEEP))
    with pytest.raises(BadRequest, match="Row 1"):
        loaded[0]


def test_a_table_that_is_gone_or_damaged_is_not_found(tmp_path: Path) -> None:
    reference = FileResults(str(tmp_path)).put(rows_of(20_000), KEEP)
    (path,) = tmp_path.rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(NotFound, match="damaged"):
        FileResults(str(tmp_path)).load(reference)
    path.unlink()
    with pytest.raises(NotFound, match="gone"):
        FileResults(str(tmp_path)).load(reference)
    with pytest.raises(NotFound, match="gone"), FileResults(str(tmp_path)).file(reference):
        pass


def test_blocks_are_kept_in_memory_within_its_bound(tmp_path: Path) -> None:
    results = FileResults(str(tmp_path), cache_bytes=400_000)
    reference = results.put(rows_of(40_000), KEEP)
    loaded = results.load(reference)
    assert loaded[0]["id"] == 0
    (path,) = tmp_path.rglob("*.parquet")
    path.rename(path.with_suffix(".away"))
    assert loaded[2_000]["id"] == 2_000
    path.with_suffix(".away").rename(path)
    for index in range(0, 40_000, 2_000):
        assert loaded[index]["id"] == index
    path.unlink()
    with pytest.raises(NotFound):
        loaded[0]


def test_a_value_of_many_levels_stays_readable(results: FileResults) -> None:
    value: Any = "x" * 400_000
    for _ in range(150):
        value = {"a": value}
    assert open_references(results.put(value, KEEP), results.load) == value
