"""kind: artifact - files under keys, by URI, and results by reference."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.facts.reference import Retention
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.kit.registry import Registry
from noetl.usecases.ports import Results


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty result store, of each kind in turn."""
    return f"file://{tmp_path}/results" if request.param == "file" else f"memory://{uuid4().hex}"


@pytest.fixture
def results(store: str) -> Results:
    return open_results(store)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """The directory of the playbook."""
    folder = tmp_path / "book"
    folder.mkdir()
    return folder


@pytest.fixture
def registry(store: str, results: Results, book: Path) -> Iterator[Registry]:
    made = Registry(
        Services(
            files=FilePolicy(roots=(book,), directories=(book,)),
            results=results,
            artifacts_url=f"{store}/artifacts",
            result_limit=100_000,
        )
    )
    yield made
    made.close()


def run(registry: Registry, action: str, /, execution: str = "1", **config: Any) -> Outcome:
    call = Call("artifact", {"action": action, **config}, {}, {}, Where(execution, "r", "s"), "t", 1, "key")
    outcome = registry.run(call)
    assert isinstance(outcome, Outcome)
    return outcome


def result(registry: Registry, action: str, /, execution: str = "1", **config: Any) -> Any:
    outcome = run(registry, action, execution, **config)
    assert outcome.ok, outcome.error
    return outcome.result


def error(registry: Registry, action: str, /, **config: Any) -> ErrorInfo:
    outcome = run(registry, action, **config)
    assert outcome.error is not None, outcome.result
    return outcome.error


@pytest.mark.parametrize(
    ("key", "data", "content_type"),
    [
        ("a.json", {"rows": [1, None, "ü"]}, "application/json"),
        ("deep/er/a.txt", "text\n", "text/plain"),
        ("a.csv", "a,b\n1,2\n", "text/csv"),
        ("a.ndjson", "{}\n{}\n", "application/x-ndjson"),
        ("a.json.gz", "{}", "application/octet-stream"),
        ("no-ending", "text", "text/plain"),
        ("%2e%2e", "text", "text/plain"),
    ],
)
def test_what_was_put_is_got(registry: Registry, key: str, data: Any, content_type: str) -> None:
    put = result(registry, "put", key=key, data=data)
    got = result(registry, "get", key=key)
    assert (got["data"], got["content_type"], put["content_type"]) == (data, content_type, content_type)
    assert {name: put[name] for name in ("key", "uri", "bytes", "sha256")} == {
        name: got[name] for name in ("key", "uri", "bytes", "sha256")
    }
    assert got["uri"].endswith(key)


def test_bytes_travel_as_base64(registry: Registry) -> None:
    raw = bytes(range(256))
    put = result(registry, "put", key="a.bin", data=base64.b64encode(raw).decode(), encoding="base64")
    assert put["sha256"] == hashlib.sha256(raw).hexdigest()
    got = result(registry, "get", key="a.bin")
    assert (base64.b64decode(got["data"]), got["encoding"]) == (raw, "base64")
    assert "not base64" in error(registry, "put", key="a", data="?", encoding="base64").message


def test_an_artifact_is_known_by_its_uri_as_well(registry: Registry) -> None:
    put = result(registry, "put", key="a/b.txt", data="x")
    assert result(registry, "get", uri=put["uri"], execution="2")["data"] == "x"
    assert result(registry, "get", uri=result(registry, "list")["artifacts"][0]["uri"])["data"] == "x"
    assert error(registry, "get", uri=f"{put['uri']}/../../../../../secret").type == "BadPath"


def test_keys_belong_to_an_execution_unless_they_are_shared(registry: Registry) -> None:
    result(registry, "put", key="a", data="mine")
    result(registry, "put", key="a", data="ours", scope="shared")
    assert result(registry, "get", key="a", scope="shared", execution="2")["data"] == "ours"
    assert result(registry, "get", key="a")["data"] == "mine"
    missing = run(registry, "get", "2", key="a").error
    assert missing is not None
    assert missing.message == "There is no artifact 'a' of this execution."


def test_a_key_that_is_not_there_is_reported_with_the_nearest_one(registry: Registry) -> None:
    result(registry, "put", key="reports/totals.json", data=1)
    found = error(registry, "get", key="reports/total.json")
    assert (found.kind, found.type, found.retryable) == ("client_error", "NotFound", False)
    assert found.message.endswith("Did you mean 'reports/totals.json'?")


def test_what_is_put_again_replaces_what_was_there(registry: Registry) -> None:
    result(registry, "put", key="a", data="one")
    result(registry, "put", key="a", data="two")
    assert result(registry, "get", key="a")["data"] == "two"
    assert result(registry, "list")["count"] == 1


def test_keys_are_listed_with_their_sizes(registry: Registry) -> None:
    assert result(registry, "list") == {"artifacts": [], "count": 0}
    for key in ("b/2", "a", "b/1"):
        result(registry, "put", key=key, data=key)
    result(registry, "put", key="b/3", data="x", execution="2")
    listed = result(registry, "list")
    assert [(one["key"], one["bytes"]) for one in listed["artifacts"]] == [("a", 1), ("b/1", 3), ("b/2", 3)]
    assert [one["key"] for one in result(registry, "list", prefix="b/")["artifacts"]] == ["b/1", "b/2"]


def test_a_file_of_the_playbook_is_put_and_written(registry: Registry, book: Path) -> None:
    (book / "in.csv").write_text("a,b\n")
    put = result(registry, "put", key="x.csv", file="in.csv")
    assert (put["bytes"], put["content_type"]) == (4, "text/csv")
    got = result(registry, "get", key="x.csv", to="out/copy.csv")
    assert got["file"] == "out/copy.csv"
    assert (book / "out/copy.csv").read_text() == "a,b\n"
    assert [one.name for one in (book / "out").iterdir()] == ["copy.csv"]


def test_resolve_tells_without_reading(registry: Registry) -> None:
    result(registry, "put", key="a.json", data={"rows": [{"id": 7}]})
    told = result(registry, "resolve", key="a.json")
    assert (told["exists"], told["bytes"], told["content_type"]) == (True, 21, "application/json")
    assert "data" not in told
    assert result(registry, "resolve", key="a.json", path="rows.0.id")["data"] == 7
    for nowhere in ("rows.9.id", "rows.--1", "none", "rows.0.id.x"):
        assert result(registry, "resolve", key="a.json", path=nowhere)["data"] is None
    assert result(registry, "resolve", key="b.json") == {
        "exists": False,
        "key": "b.json",
        "uri": told["uri"].replace("a.json", "b.json"),
        "bytes": None,
        "content_type": "application/json",
    }


def test_a_result_that_was_too_large_is_read_and_kept(registry: Registry, results: Results) -> None:
    value = {"rows": [{"id": number} for number in range(2_000)]}
    reference = results.put(value, Retention("1"))
    assert result(registry, "get", ref=reference["ref"], path="rows.-1.id")["data"] == 1_999
    assert result(registry, "resolve", ref=reference, path="rows.0.id")["data"] == 0
    told = result(registry, "resolve", ref=reference)
    assert told["meta"] == reference["meta"]
    assert told["exists"] is True
    put = result(registry, "put", key="big.json", data=reference)
    assert put["sha256"] == reference["meta"]["sha256"]
    assert result(registry, "get", key="big.json")["data"] == value
    assert result(registry, "put", key="pair.json", data=[reference, 1])["bytes"] > put["bytes"]
    assert error(registry, "get", ref="noetl://results/x").kind == "client_error"


def test_bytes_travel_as_base64_however_long_they_are(registry: Registry, results: Results) -> None:
    raw = bytes(range(256)) * 2_000
    reference = results.put(base64.b64encode(raw).decode(), Retention("1"))
    put = result(registry, "put", key="a.bin", data=reference, encoding="base64")
    assert (put["bytes"], put["sha256"]) == (len(raw), hashlib.sha256(raw).hexdigest())
    for wrong in ({"a": 1}, results.put({"a": 1}, Retention("1"))):
        found = error(registry, "put", key="a", data=wrong, encoding="base64")
        assert "`encoding` needs `data` to be a text" in found.message


@pytest.mark.parametrize(
    "data",
    [
        "a,b\n" * 200_000,
        {"text": "x" * 600_000, "more": ["y" * 600_000, 1]},
        [{"id": number, "name": "x" * 60} for number in range(20_000)],
        [number if number % 2 else {"n": number} for number in range(100_000)],
    ],
    ids=["text", "tree", "table", "pages"],
)
def test_what_is_kept_by_reference_is_written_as_it_would_be_had_it_been_small(
    registry: Registry, results: Results, book: Path, data: Any
) -> None:
    result(registry, "put", key="a.json", data=results.put(data, Retention("1")))
    result(registry, "get", key="a.json", to="copy")
    text = (book / "copy").read_text()
    assert (text if isinstance(data, str) else json.loads(text)) == data


def test_a_table_is_copied_as_one_where_its_name_does_not_say_json(
    registry: Registry, results: Results, book: Path
) -> None:
    rows = [{"id": number, "name": "x" * 60} for number in range(20_000)]
    put = result(registry, "put", key="a.parquet", data=results.put(rows, Retention("1")))
    result(registry, "get", key="a.parquet", to="copy")
    assert ((book / "copy").read_bytes()[:4], put["content_type"]) == (
        b"PAR1",
        "application/vnd.apache.parquet",
    )


def test_other_files_are_named_by_uri(registry: Registry, book: Path) -> None:
    (book / "in.json").write_text('{"a": 1}')
    assert result(registry, "get", uri="in.json")["data"] == {"a": 1}
    assert result(registry, "get", uri=(book / "in.json").as_uri())["data"] == {"a": 1}
    name = f"memory://{uuid4().hex}/b.txt"
    result(registry, "put", uri=name, file="in.json")
    assert result(registry, "get", uri=name) == {
        "uri": name,
        "bytes": 8,
        "sha256": hashlib.sha256(b'{"a": 1}').hexdigest(),
        "data": '{"a": 1}',
        "content_type": "text/plain",
    }
    assert error(registry, "get", uri="none.txt").type == "NotFound"


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "link/secret", "link", "a\0b", "sub/../../secret", "", ".", "x" * 5000],
)
def test_no_file_outside_of_the_playbooks_directory_is_read_or_written(
    registry: Registry, book: Path, name: str
) -> None:
    outside = book.parent / "secret"
    outside.write_text("secret")
    (book / "link").symlink_to(book.parent)
    for config in ({"uri": name}, {"uri": f"file://{name}"}):
        assert error(registry, "get", **config).kind == "client_error"
        assert error(registry, "put", data="x", **config).kind == "client_error"
    result(registry, "put", key="a", data="x")
    assert error(registry, "get", key="a", to=name).type == "BadPath"
    assert error(registry, "put", key="a", file=name).type in ("BadPath", "NotFound")
    assert outside.read_text() == "secret"


@pytest.mark.parametrize(
    "key", ["../a", "/a", "a/../../b", "a//b", "./a", "a/", "a\nb", "a\0b", "a\\..\\b", "x" * 600]
)
def test_no_key_leads_out_of_the_artifacts(registry: Registry, key: str) -> None:
    assert error(registry, "put", key=key, data="x").type == "BadPath"
    assert error(registry, "get", key=key).type == "BadPath"


def test_a_link_among_the_artifacts_leads_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts/executions"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(tmp_path)
    registry = Registry(Services(artifacts_url=f"file://{tmp_path}/artifacts"))
    assert error(registry, "put", key="a", data="x").type == "BadPath"


def test_roots_of_the_settings_may_be_named_as_well(tmp_path: Path) -> None:
    registry = Registry(Services(files=FilePolicy(roots=(tmp_path,))))
    result(registry, "put", uri=str(tmp_path / "a.txt"), data="x")
    assert (tmp_path / "a.txt").read_text() == "x"
    assert result(registry, "get", uri="a.txt")["data"] == "x"
    nobody = error(Registry(Services()), "get", uri="a.txt").message
    assert "has no roots for files; set NOETL_FILE_ROOTS on the worker" in nobody


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1/x", "ftp://x/y", "local:///etc/passwd", "simplecache::file:///etc/passwd"]
)
def test_other_schemes_are_refused(registry: Registry, uri: str) -> None:
    assert error(registry, "get", uri=uri).kind == "client_error"


def test_a_store_at_a_private_address_is_refused_where_such_are(registry: Registry) -> None:
    found = error(registry, "get", uri="s3://bucket/x", auth={"endpoint_url": "http://127.0.0.1:9000"})
    assert found.type == "AddressBlocked"


def test_an_artifact_larger_than_a_result_may_be_goes_to_a_file(registry: Registry, book: Path) -> None:
    (book / "big").write_bytes(b"x" * 200_000)
    result(registry, "put", key="big", file="big")
    found = error(registry, "get", key="big")
    assert (found.kind, "write it to a file with `to`" in found.message) == ("limit", True)
    assert result(registry, "get", key="big", to="copy")["bytes"] == 200_000


@pytest.mark.parametrize(
    ("action", "config", "message"),
    [
        ("put", {"key": "a"}, "one of `data` and `file`"),
        ("put", {"data": 1}, "needs one of `key`, `uri` and `ref`"),
        ("get", {"key": "a", "uri": "b"}, "needs one of `key`, `uri` and `ref`"),
        ("put", {"ref": "noetl://results/x", "data": 1}, "`put` needs a `key` or `uri`"),
        ("get", {"key": "a", "data": 1}, "`data` is for `put`"),
        ("fetch", {"key": "a"}, "'action' of the artifact task"),
    ],
)
def test_a_call_that_cannot_be_meant_says_why(
    registry: Registry, action: str, config: dict[str, Any], message: str
) -> None:
    found = error(registry, action, **config)
    assert found.kind == "client_error"
    assert message in found.message
