"""Tables and large values between the result store and python code, in files: past the worker's
memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import (
    RESULT_REF,
    Lazy,
    Load,
    Retention,
    holds_reference,
    is_reference,
    open_references,
    plain,
)
from noetl.facts.values import as_dicts
from noetl.pipeline.failures import blame
from noetl.tools.code.runner.requests import FrameFile, Frames, InputFile
from noetl.tools.kit.base import Services
from noetl.tools.kit.large import PARQUET
from noetl.usecases.ports import Results

#: References to more bytes than this reach the code in a file, written a part at a time.
SPILL_BYTES: Final = 1024 * 1024
#: Shortest JSON of a cell, `"a":1,`: what has more cells than fit need not be read to know that it
#: is large.
_CELL_BYTES: Final = 6


@contextmanager
def inputs(
    args: Mapping[str, Json], services: Services, frames: Frames | None
) -> Iterator[tuple[Mapping[str, Json], Mapping[str, InputFile]]]:
    """`args` without references: values that travel with the call, in their order, and the files of
    those that the code reads by itself, which are there while the block runs. Raises CannotGoOn.

    A reference to a Parquet file is handed over as that file where the code is to get a frame.
    """
    results = services.results
    with ExitStack() as stack:
        values, files = dict(args), dict[str, InputFile]()
        for name, value in args.items():
            if results is None or not (isinstance(value, Lazy) or holds_reference(value)):
                continue
            with blame(f"The input '{name}'"):
                meta = value.get("meta", {}) if is_reference(value) else {}
                if frames is not None and meta.get("content_type") == PARQUET:
                    files[name] = InputFile(stack.enter_context(results.file(value)), "parquet")
                elif _count_bytes(value) > SPILL_BYTES:
                    services.scratch.mkdir(parents=True, exist_ok=True)
                    folder = TemporaryDirectory(prefix="noetl-input-", dir=services.scratch)
                    path = Path(stack.enter_context(folder), "input.json")
                    with path.open("w", encoding="utf-8") as file:
                        _write(value, results.load, file)
                    files[name] = InputFile(path, "json")
                else:
                    values[name] = open_references(plain(value), results.load)
        yield {name: None if name in files else value for name, value in values.items()}, files


def _count_bytes(value: Json) -> int:
    """About how large that is which `value` stands for. A list that is read lazily, a manifest, and
    a reference without its size count as large."""
    if isinstance(value, Lazy):
        return SPILL_BYTES + 1
    if isinstance(value, Mapping):
        if is_reference(value):
            size = value.get("meta", {}).get("bytes") if value["kind"] == RESULT_REF else None
            return size if isinstance(size, int) else SPILL_BYTES + 1
        return sum(map(_count_bytes, value.values()))
    return sum(map(_count_bytes, value)) if isinstance(value, list) else 0


def _write(value: Json, load: Load, file: TextIO) -> None:
    """The JSON of `value` with its references opened, as little of it in memory at a time as they
    allow."""
    if isinstance(value, Mapping) and is_reference(value):
        _write(load(value), load, file)
    elif isinstance(value, Lazy):
        _write_list((item for page in value.pages() for item in page), load, file)
    elif not holds_reference(value):
        # In one go: the encoder is much faster than one that yields pieces.
        file.write(json.dumps(value, typed=True))
    elif isinstance(value, Mapping):
        file.write("{")
        for number, (key, item) in enumerate(value.items()):
            file.write(f"{', ' if number else ''}{json.dumps(str(key))}: ")
            _write(item, load, file)
        file.write("}")
    else:
        _write_list(iter(value), load, file)


def _write_list(items: Iterator[Json], load: Load, file: TextIO) -> None:
    file.write("[")
    for number, item in enumerate(items):
        file.write(", " if number else "")
        _write(item, load, file)
    file.write("]")


@dataclass(frozen=True, slots=True)
class ResultTables:
    """What becomes of the tables in a result: small ones are lists of mappings, others are kept by
    reference."""

    results: Results | None
    inline_bytes: int
    keep: Retention

    def __call__(self, table: FrameFile) -> Json:
        """Raises what `Results.put_file` raises."""
        if self.results is None:
            return rows_of(table.path)
        if table.rows * table.columns * _CELL_BYTES <= self.inline_bytes:
            rows = rows_of(table.path)
            if len(json.dumps(rows)) <= self.inline_bytes:
                return rows
        return self.results.put_file(table.path, PARQUET, self.keep)


def rows_of(path: Path) -> list[dict[str, Json]]:
    """The rows of a Parquet file as SQL tools yield them."""
    import duckdb  # the driver takes 90 ms, and few results hold frames

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": "256MB",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [str(path)])
        names = [column[0] for column in found.description or ()]
        return as_dicts(names, found.fetchall(), set())
