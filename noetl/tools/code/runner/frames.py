"""Frames of pandas, polars and Arrow: inputs become them, and results that are one become Parquet
files.

None of the libraries is imported unless the code has done so, or the task asks for its frames.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...kit import plain
from .requests import CodeError

#: Classes of frames by module and name: which library writes them.
_CLASSES = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "arrow",
    ("pyarrow", "RecordBatch"): "arrow",
}
#: The module to install for each sort of frame.
_MODULES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
#: Times are kept in microseconds, as SQL tools yield them.
_TIMES: dict[str, Any] = {"coerce_timestamps": "us", "allow_truncated_timestamps": True}


def to_frame(name: str, value: Any, sort: str) -> Any:
    """An input as a frame where it is a table (a list of mappings), else as it is. Raises
    CodeError."""
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        return value
    with _explaining(name, sort):
        match sort:
            case "pandas":
                import pandas

                return pandas.DataFrame(value)
            case "polars":
                import polars

                return polars.from_dicts(value, infer_schema_length=None) if value else polars.DataFrame()
            case _:
                import pyarrow

                return pyarrow.Table.from_pylist(value)


def read_frame(name: str, path: str, sort: str) -> Any:
    """An input as a frame, from a Parquet file. Raises CodeError."""
    with _explaining(name, sort):
        match sort:
            case "pandas":
                import pandas

                return pandas.read_parquet(path, engine="pyarrow")
            case "polars":
                import polars

                return polars.read_parquet(path, hive_partitioning=False)
            case _:
                import pyarrow.parquet

                return pyarrow.parquet.read_table(path, partitioning=None)


@contextmanager
def _explaining(name: str, sort: str) -> Iterator[None]:
    """Raises CodeError for what a library raises, but for a lack of memory or of files."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or _MODULES[sort]).partition(".")[0]
        raise CodeError(
            f"`frames: {sort}` needs {missing}, which is not installed where this task runs: "
            f"install it there with `pip install {missing}`.",
            "ModuleNotFoundError",
        ) from None
    except (OSError, MemoryError):
        raise
    # Broad on purpose: each library has other exceptions for rows that do not fit together.
    except Exception as error:
        raise CodeError(
            f"The input '{name}' cannot come as a frame ({sort}): {error}", type(error).__name__
        ) from error


class FrameFiles:
    """The frames of one result. `convert` is a hook for `plain.dumps`: a file is written for each
    frame, and `{<mark>: <number of the file>}` stands in its place."""

    def __init__(self, folder: str) -> None:
        self.sizes: list[tuple[int, int]] = []
        self.mark = os.urandom(12).hex()
        self._folder = folder
        self._known: dict[int, Any] = {}

    def convert(self, value: Any) -> Any:
        """Raises TypeError (`plain.Unfit` where it is a frame that no file can hold)."""
        sort = sort_of(value)
        if sort is None:
            return plain.convert(value)
        if id(value) not in self._known:
            self._known[id(value)] = self._write(value, sort)
        return self._known[id(value)]

    def _write(self, frame: Any, sort: str) -> Any:
        rows, columns = frame.shape
        if not columns:
            return [{}] * rows
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        try:
            _write_parquet(frame, sort, os.path.join(self._folder, f"{len(self.sizes)}.parquet"))
        except (OSError, MemoryError, plain.NotConverted):
            raise
        # Broad on purpose: each library has other exceptions for values that Parquet cannot hold.
        except Exception as error:
            raise plain.NotConverted(f"is a frame ({sort}) that Parquet cannot hold: {error}") from error
        self.sizes.append((rows, columns))
        return {self.mark: len(self.sizes) - 1}


def sort_of(value: Any) -> str | None:
    """pandas, polars or arrow where `value` is a frame of theirs."""
    for base in type(value).__mro__:
        found = _CLASSES.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    return None


def _write_parquet(frame: Any, sort: str, path: str) -> None:
    match sort:
        case "pandas":
            _write_pandas(frame, path)
        case "polars":
            frame.write_parquet(path)
        case _:
            import pyarrow.parquet

            _refuse_twins(frame.schema.names)
            table = frame if isinstance(frame, pyarrow.Table) else pyarrow.Table.from_batches([frame])
            pyarrow.parquet.write_table(table, path, **_TIMES)


def _write_pandas(frame: Any, path: str) -> None:
    named = any(name is not None for name in frame.index.names)
    frame = frame.reset_index(drop=not named)
    names = ["_".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in frame.columns]
    _refuse_twins(names)
    frame.set_axis(names, axis=1).to_parquet(path, engine="pyarrow", index=False, **_TIMES)


def _refuse_twins(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise plain.NotConverted(f"is a frame with two columns called '{name}'; rename one")
        seen.add(name)
