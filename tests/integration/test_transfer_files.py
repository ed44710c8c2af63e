"""Files as sources of a transfer: all that is in them comes, or the message says why not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts import json as exact_json
from noetl.facts.outcome import Outcome
from noetl.facts.reference import open_references
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.transfer.config import TransferConfig
from noetl.tools.transfer.tool import Transfer


class Folder:
    """A folder with files, and a transfer that reads them."""

    def __init__(self, path: Path, results: Path) -> None:
        self.path = path
        self.services = Services(
            results=open_results(str(results)),
            files=FilePolicy(roots=(path,), directories=(path,)),
            scratch=results / "scratch",
        )
        self.tool = Transfer(self.services)

    def put(self, name: str, content: str | bytes) -> str:
        raw = content.encode() if isinstance(content, str) else content
        (self.path / name).write_bytes(raw)
        return name

    def moved(self, name: str, **source: Any) -> Outcome:
        given = {"source": {"kind": "file", "file": name, **source}, "target": {"kind": "result"}}
        call = Call("transfer", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, name)
        came = self.tool.run(call, TransferConfig.model_validate(given))
        assert isinstance(came, Outcome)
        return came

    def rows(self, name: str, **source: Any) -> list[dict[str, Any]]:
        assert self.services.results is not None
        reference = self.moved(name, **source).result["ref"]
        return list(open_references(reference, self.services.results.load))

    def refused(self, name: str, **source: Any) -> str:
        with pytest.raises(ToolError) as caught:
            self.moved(name, **source)
        return caught.value.message


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "base").mkdir()
    folder = Folder(tmp_path / "base", tmp_path / "results")
    yield folder
    folder.tool.close()


GOOD = [f"{n},n{n}\n" for n in range(1, 2_001)]
RAGGED = {
    "too many in the last line": (["id,name\n", *GOOD, "2001,Lee, Ann\n"], "line 2002 has 3 fields"),
    "too many in the middle": (["id,name\n", *GOOD[:9], "0,Lee, Ann\n", *GOOD[9:]], "line 11 has 3 fields"),
    "too many in the first row": (["id,name\n", "0,Lee, Ann\n", *GOOD[:20]], "line 2 has 3 fields"),
    "too few": (["id,name\n", *GOOD[:50], "51\n"], "line 52 has 1 field in the place of 2"),
    "a header that is too short": (["id,name\n", "1,a,x\n", "2,b,y\n"], "line 2 has 3 fields"),
    "a title above the header": (["May\n", "id,name\n", "1,a\n"], "line 2 has 2 fields"),
    "a quote that stays open": (["id,name\n", '1,"a\n', "2,b\n"], "line 2 has a quote that does not end"),
    "another type": (
        ["name,id\n", *(f"n,{n}\n" for n in range(30_000)), "x,n/a\n"],
        "line 30002 has 'n/a' in the column 'id', which is BIGINT by the lines before",
    ),
    "another encoding": (["id,name\n", *GOOD, "2001,caf\udce9\n"], "line 2002 is not in UTF-8"),
}


@pytest.mark.parametrize("case", RAGGED)
def test_a_line_of_csv_that_cannot_be_read_fails_and_is_named(folder: Folder, case: str) -> None:
    lines, why = RAGGED[case]
    message = folder.refused(folder.put("x.csv", "".join(lines).encode(errors="surrogateescape")))

    assert message.startswith(f"The file {folder.path / 'x.csv'} cannot be read: {why}")
    assert lines[0].strip().replace(",", ", ") in message  # its columns


@pytest.mark.parametrize(
    "case", [case for case in RAGGED if case not in ("a quote that stays open", "a title above the header")]
)
def test_bad_lines_are_left_out_with_a_warning_where_that_is_wanted(folder: Folder, case: str) -> None:
    lines, why = RAGGED[case]
    name = folder.put("x.csv", "".join(lines).encode(errors="surrogateescape"))

    outcome = folder.moved(name, on_bad_line="skip")

    [warning] = outcome.meta["warnings"]
    bad = 2 if case == "a header that is too short" else 1
    assert outcome.result["rows"] == len(lines) - 1 - bad
    assert ("1 line was left out" if bad == 1 else "2 lines were left out") in warning
    assert why in warning


def test_what_stands_behind_an_open_quote_is_not_left_out(folder: Folder) -> None:
    name = folder.put("x.csv", "".join(RAGGED["a quote that stays open"][0]))
    assert "it cannot be skipped" in folder.refused(name, on_bad_line="skip")


READINGS = {
    "lines that begin with # are data": ("id,name\n1,a\n#2,b\n", [("1", "a"), ("#2", "b")]),
    "semicolons": ("id;name\n1;a\n2;b,c\n", [(1, "a"), (2, "b,c")]),
    "tabs": ("id\tname\n1\ta\n", [(1, "a")]),
    "one column": ("name\na\nb\n", [("a",), ("b",)]),
    "a byte order mark": ("\ufeffid,name\n1,a\n", [(1, "a")]),
    "blank lines": ("\n\nid,name\n1,a\n\n2,b\n", [(1, "a"), (2, "b")]),
    "CRLF": ("id,name\r\n1,a\r\n", [(1, "a")]),
    "line ends in quotes": ('id,name\n1,"a\r\nb"\n2,"x ""y"""\n', [(1, "a\r\nb"), (2, 'x "y"')]),
    "no header": ("1,a\n2,b\n", [(1, "a"), (2, "b")]),
    "apostrophes": ("id,name\n1,'a\n2,b'\n", [(1, "'a"), (2, "b'")]),
    "codes with zeros before them": ("zip,n\n00501,1\n", [("00501", 1)]),
}


@pytest.mark.parametrize("case", READINGS)
def test_csv_is_read_as_it_is_written(folder: Folder, case: str) -> None:
    text, rows = READINGS[case]
    assert [tuple(row.values()) for row in folder.rows(folder.put("x.csv", text))] == rows


def test_numbers_of_csv_keep_their_digits(folder: Folder) -> None:
    columns = {
        "long": ["12345678901234567890", "-1", "2"],
        "exact": ["12345678901234567.25", "0.1", "3"],
        "plain": ["0.30000000000000004", "1.7976931348623157e+308", "-5"],
        "wide": ["1234567890123456789012345678901234567890.5", "1", "2.25"],
    }
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]

    rows = folder.rows(folder.put("x.csv", "\n".join(lines)))

    read = {name: [exact_json.dumps(row[name]).strip('"') for row in rows] for name in columns}
    assert read["long"] == columns["long"]
    assert read["exact"] == ["12345678901234567.25", "0.10", "3.00"]
    assert [row["plain"] for row in rows] == list(map(float, columns["plain"]))
    assert read["wide"] == columns["wide"]


def test_a_date_of_csv_that_does_not_begin_with_the_year_stays_a_text(folder: Folder) -> None:
    lines = ["n,guess,instant", "1,05/01/2024,05/01/2024 10:00:00"]

    (plain,) = folder.rows(folder.put("plain.csv", "iso\n2024-01-05\n"))
    (slashes,) = folder.rows(folder.put("slashes.csv", "d\n2024/01/13\n"))
    (guessed,) = folder.rows(folder.put("guessed.csv", "\n".join(lines)))
    (european,) = folder.rows(folder.put("european.csv", "d,t\n13/01/2024,13.01.2024 10:00:00\n"))

    assert plain == {"iso": "2024-01-05"}
    assert slashes == {"d": "2024-01-13"}
    assert (guessed["guess"], guessed["instant"]) == ("05/01/2024", "05/01/2024 10:00:00")
    assert european == {"d": "13/01/2024", "t": "13.01.2024 10:00:00"}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_encoding_is_named_or_asked_for(folder: Folder, encoding: Any) -> None:
    name = folder.put("x.csv", "id,name\n1,café\n".encode(encoding))

    assert "UTF-8" in folder.refused(name)
    assert folder.rows(name, encoding=encoding) == [{"id": 1, "name": "café"}]


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson", "x.json", "x.parquet"])
def test_a_file_without_a_byte_is_said_to_be_empty(folder: Folder, name: str) -> None:
    assert f"{folder.path / name} is empty" in folder.refused(folder.put(name, ""))


def test_a_csv_file_of_blank_lines_is_said_to_be_empty(folder: Folder) -> None:
    assert "it is empty" in folder.refused(folder.put("x.csv", "\ufeff\n\n"))


def test_a_name_that_exists_is_that_file(folder: Folder) -> None:
    for name, number in {"a[1].csv": 1, "a1.csv": 2, "b*.csv": 3, "bb.csv": 4}.items():
        folder.put(name, f"n\n{number}\n")

    assert [folder.rows(name) for name in ("a[1].csv", "b*.csv")] == [[{"n": 1}], [{"n": 3}]]


def test_keys_of_csv_are_refused_for_other_files(folder: Folder) -> None:
    assert "are for CSV" in folder.refused(folder.put("x.ndjson", "{}"), on_bad_line="skip")


DOCUMENTS: list[dict[str, Any]] = [
    {"v": [1, 2], "n": 9007199254740993, "t": "2026-01-05T10:00:00Z"},
    {"v": ["x"], "n": 0.5, "late": True},
    {"v": {"x": 1}, "n": 123456789012345678901234567890},
    {"v": {"y": None}, "n": None, "t": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["x.ndjson", "x.json"])
def test_documents_of_json_come_as_they_are(folder: Folder, name: str, mark: str) -> None:
    lines = "\n".join(map(json.dumps, DOCUMENTS))
    text = lines if name == "x.ndjson" else json.dumps(DOCUMENTS, indent=1)

    rows = folder.rows(folder.put(name, mark + text))

    names = ("v", "n", "t", "late")
    assert rows == [{name: row.get(name) for name in names} for row in DOCUMENTS]
    assert {tuple(row) for row in rows} == {names}, "columns are in the order in which they come"
    assert [type(row["n"]) for row in rows] == [int, float, int, type(None)]


def test_packed_files_are_read(folder: Folder) -> None:
    folder.put("x.csv.gz", gzip.compress(b"id;name\n1;a\n"))
    folder.put("x.ndjson.gz", gzip.compress(b'{"id": 1}\n'))

    assert folder.rows("x.csv.gz", format="csv") == [{"id": 1, "name": "a"}]
    assert folder.rows("x.ndjson.gz", format="ndjson") == [{"id": 1}]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x.ndjson", '{"v": 1}\n\n{"v":\n', "line 3 is no JSON"),
        ("x.ndjson", '{"v": 1}\n[2]\n', "line 2 is no mapping of columns: [2]"),
        ("x.ndjson", b'{"v": 1}\n{"v": "\xe9"}\n', "line 2 is not in UTF-8"),
        ("x.json", '[{"v": 1}, {"v":}]', "Malformed JSON"),
        ("x.json", '[{"v": 1}, 2]', "value 2 is no mapping of columns: 2"),
        ("x.ndjson", '{"v": 1, "V": 2}\n', "their columns 'v' and 'V' have the same name but for its case"),
    ],
)
def test_json_that_makes_no_table_says_where(folder: Folder, name: str, text: str | bytes, why: str) -> None:
    assert why in folder.refused(folder.put(name, text))
