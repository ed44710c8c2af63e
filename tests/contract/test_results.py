"""What every result store promises: `noetl.usecases.ports.Results`."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from noetl.errors import BadRequest, ConfigError, NotFound, Unavailable
from noetl.facts.reference import Retention, is_reference
from noetl.results import FileResults, open_results
from noetl.usecases.ports import Results

KEEP = Retention("7")

MAKERS: dict[str, Callable[[Path], Results]] = {
    "opened": lambda root: open_results(f"file://{root}/results"),
    "files": lambda root: FileResults(str(root / "results")),
    "file-url": lambda root: FileResults(f"file://{root}/results", cache_bytes=0),
    "fsspec-memory": lambda _: FileResults(f"memory://{uuid4().hex}"),
}


@pytest.fixture(params=[*MAKERS, "s3"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Results:
    if request.param == "s3":
        return open_results(f"{request.getfixturevalue('s3_url')}/below/here", tmp_path / "scratch")
    return MAKERS[request.param](tmp_path)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, 1.5, "", "é😀\0\u2028", [], {}, [[1, None], {"b": 1, "a": [{}]}], "x" * 900_000],
)
def test_a_value_comes_back_as_it_was(results: Results, value: Any) -> None:
    reference = results.put(value, KEEP)
    assert is_reference(reference)
    assert results.load(reference) == value
    assert results.load({"kind": "result_ref", "ref": reference["ref"]}) == value


def test_keys_keep_their_order(results: Results) -> None:
    assert list(results.load(results.put({"b": 1, "a": 2}, KEEP))) == ["b", "a"]


def test_the_same_value_twice_is_one_object(results: Results) -> None:
    assert results.put({"a": [1, 2]}, KEEP) == results.put({"a": [1, 2]}, KEEP)


def test_a_reference_is_json_and_says_what_it_stands_for(results: Results) -> None:
    rows = [{"id": number, "name": "x"} for number in range(1200)]
    reference = results.put(rows, KEEP)
    assert json.loads(json.dumps(reference)) == reference
    assert reference["ref"] == f"noetl://results/executions/7/{reference['meta']['sha256']}.json"
    assert reference["meta"]["bytes"] == len(json.dumps(rows, separators=(",", ":")))
    assert reference["meta"]["content_type"] == "application/json"
    assert reference["preview"]["type"] == "array"
    assert reference["preview"]["length"] == 1200
    assert reference["preview"]["head"].startswith('[{"id":0,"name":"x"},')
    assert len(reference["preview"]["head"]) == 512


def test_a_preview_of_a_mapping_names_its_keys(results: Results) -> None:
    preview = results.put({f"k{number}": number for number in range(100)}, KEEP)["preview"]
    assert (preview["type"], preview["length"], preview["keys"][:2]) == ("object", 100, ["k0", "k1"])
    assert len(preview["keys"]) == 32


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), b"x"])
def test_what_is_not_json_is_refused(results: Results, value: Any) -> None:
    with pytest.raises(BadRequest):
        results.put(value, KEEP)


def test_whether_a_result_is_there_is_known_without_reading_it(results: Results) -> None:
    reference = results.put(["x"], KEEP)
    assert results.holds(reference)
    listed = {
        "kind": "manifest",
        "count": 2,
        "parts": [{"count": 1, "items": [1]}, {"count": 1, "ref": reference}],
    }
    assert results.holds(listed)
    results.remove(KEEP.place)
    assert not results.holds(reference)
    assert not results.holds(listed)
    with pytest.raises(BadRequest):
        results.holds({"kind": "result_ref", "ref": "noetl://results/../../etc/passwd"})


def test_a_result_that_is_gone_is_not_found(results: Results) -> None:
    with pytest.raises(NotFound):
        results.load({"kind": "result_ref", "ref": "noetl://results/" + "0" * 64})
    with pytest.raises(NotFound):
        results.load({"kind": "result_ref", "ref": "noetl://elsewhere/" + "0" * 64})


@pytest.mark.parametrize(
    "ref",
    [
        None,
        7,
        "",
        "noetl://results/../../etc/passwd",
        "noetl://results/" + "0" * 63,
        "noetl://results/" + "0" * 64 + "\n",
        "noetl://results/" + "A" * 64,
        "noetl://../" + "0" * 64,
        "file:///etc/passwd",
        "noetl://results/..%2f" + "0" * 59,
    ],
)
def test_only_a_hash_can_be_asked_for(results: Results, ref: Any) -> None:
    with pytest.raises(BadRequest):
        results.load({"kind": "result_ref", "ref": ref})


def _only_file(root: Path) -> Path:
    (found,) = (path for path in root.rglob("*") if path.is_file())
    return found


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x1f\x8b", None])
def test_a_damaged_object_is_never_handed_out(tmp_path: Path, damage: bytes | None) -> None:
    results = FileResults(str(tmp_path))
    reference = results.put([1, 2, 3], KEEP)
    other = FileResults(str(tmp_path / "other"))
    other.put([4], KEEP)
    content = _only_file(tmp_path / "other").read_bytes() if damage is None else damage
    (tmp_path / "executions/7" / f"{reference['meta']['sha256']}.json.gz").write_bytes(content)
    with pytest.raises(NotFound, match="damaged"):
        results.load(reference)


def test_many_writers_of_one_value_leave_one_whole_file(tmp_path: Path) -> None:
    value = list(range(20_000))

    def put(_: int) -> Any:
        return FileResults(str(tmp_path)).put(value, KEEP)

    with ThreadPoolExecutor(8) as pool:
        (first, *rest) = pool.map(put, range(16))
    assert all(reference == first for reference in rest)
    assert _only_file(tmp_path).name == f"{first['meta']['sha256']}.json.gz"
    assert FileResults(str(tmp_path)).load(first) == value


def test_a_load_is_served_from_memory_within_its_bound(tmp_path: Path) -> None:
    results = FileResults(str(tmp_path), cache_bytes=250)
    references = [results.put(letter * 98, KEEP) for letter in "abc"]
    for reference in references:
        results.load(reference)
    for path in tmp_path.rglob("*.gz"):
        path.unlink()
    assert results.load(references[1]) == "b" * 98
    assert results.load(references[2]) == "c" * 98
    with pytest.raises(NotFound):
        results.load(references[0])


def test_a_store_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be written"):
        FileResults(str(tmp_path / "file")).put([1], KEEP)


def test_an_unknown_kind_of_store_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        FileResults("nosuch://x")


@pytest.mark.parametrize(("url", "driver"), [("s3://b", "s3fs"), ("gs://b", "gcsfs")])
def test_a_store_whose_driver_is_not_installed_names_what_installs_it(
    url: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition(":")[0], raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'noetl-celery\[(s3|gcs)\]'"):
        FileResults(url)


def test_a_store_that_nobody_serves_is_unavailable(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    results = FileResults(f"{s3_url}/away", scratch=tmp_path)
    with pytest.raises(Unavailable, match="cannot be written"):
        results.put([1], KEEP)
    with pytest.raises(Unavailable, match="cannot be read"):
        results.load({"kind": "result_ref", "ref": f"noetl://results/executions/7/{'0' * 64}.json"})
    with pytest.raises(Unavailable):
        list(results.places())
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_a_bucket_that_is_not_there_is_unavailable_to_a_writer(s3_url: str) -> None:
    with pytest.raises(Unavailable, match="cannot be written"):
        FileResults(f"{s3_url}-of-nobody").put([1], KEEP)


def test_a_place_goes_with_all_that_is_in_it_and_others_stay(results: Results) -> None:
    gone = results.put([1], KEEP)
    results.put([2], KEEP)
    kept = [
        results.put([1], Retention("8")),
        results.put([1], Retention("7", "step")),
        results.put([1], Retention("7", "permanent")),
    ]
    assert list(results.places()) == ["executions/7", "executions/8", "permanent", "running/7"]
    assert results.remove("executions/7") == 2
    assert results.remove("executions/7") == 0
    assert list(results.places()) == ["executions/8", "permanent", "running/7"]
    with pytest.raises(NotFound, match="gone"):
        results.load(gone)
    assert [results.load(one) for one in kept] == [[1]] * 3
    assert results.load(results.put([1], KEEP)) == [1]


@pytest.mark.parametrize(
    "place", ["", "..", "executions", "executions/..", "until/x", "executions/7/..", "/"]
)
def test_only_a_place_can_be_removed(results: Results, place: str) -> None:
    with pytest.raises(BadRequest):
        results.remove(place)


def test_references_of_the_older_layout_still_load(tmp_path: Path) -> None:
    raw = json.dumps({"a": [1, 2]}, separators=(",", ":")).encode()
    sha256 = hashlib.sha256(raw).hexdigest()
    (tmp_path / sha256[:2]).mkdir()
    (tmp_path / sha256[:2] / f"{sha256}.json.gz").write_bytes(gzip.compress(raw))
    assert FileResults(str(tmp_path)).load({"kind": "result_ref", "ref": f"noetl://results/{sha256}"}) == {
        "a": [1, 2]
    }
