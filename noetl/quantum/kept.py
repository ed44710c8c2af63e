"""What `keep` asks for beside the figures: samples and states, as Parquet in the result store.

Rows are gathered in a file of DuckDB, so that memory stays flat, and become one object of the store when a part of a
sweep is kept; the parts become one table at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.quantum.config import Kept
from noetl.quantum.model import Samples
from noetl.quantum.session import Session
from noetl.tools.kit.large import PARQUET_OPTIONS, scratch_folder, shelf_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Name of a table → its columns, and what its rows are sorted by.
_TABLES: Final[Mapping[Kept, tuple[str, str]]] = {
    "samples": (
        'point BIGINT, "order" VARCHAR, key VARCHAR, repetition BIGINT, bits VARCHAR',
        'point, "order", key, repetition',
    ),
    "state_vector": ("point BIGINT, state BIGINT, re DOUBLE, im DOUBLE", "point, state"),
    "density_matrix": (
        "point BIGINT, row_state BIGINT, column_state BIGINT, re DOUBLE, im DOUBLE",
        "point, row_state, column_state",
    ),
}
#: Name of a table → references to its parts.
Parts: TypeAlias = Mapping[Kept, Sequence[JsonMap]]


class Keeper:
    """Gathers rows for the tables that a task keeps. Use as a context; of a task that keeps nothing all does nothing."""

    def __init__(self, session: Session, parts: Parts) -> None:
        self._wanted = tuple(dict.fromkeys(session.config.keep))
        self._shelf = shelf_of(session.call, session.services)
        self._parts = {name: list(parts.get(name, ())) for name in self._wanted}
        self._stack = contextlib.ExitStack()
        self._folder = Path()
        self._database: DuckDBPyConnection | None = None

    def __enter__(self) -> Keeper:
        if self._wanted:
            if self._shelf is None:
                raise ToolError("client_error", "`keep` needs a result store, and this process has none.")
            self._folder = Path(self._stack.enter_context(scratch_folder(self._shelf)))
            self._database = self._stack.enter_context(_opened(self._folder, self._wanted))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def samples(self, point: int, order: str, samples: Samples) -> bool:
        """Adds the repetitions of an order; False where they are wanted and the backend told only counts."""
        if "samples" not in self._wanted:
            return True
        if samples.bits is None:
            return False
        start = 0
        for measured in samples.measured:
            end = start + len(measured.qubits)
            texts = _texts(samples.bits[:, start:end])
            rows = {"repetition": numpy.arange(len(texts)), "bits": texts}
            self._insert("samples", "?, ?, ?, repetition, bits", rows, (point, order, measured.key))
            start = end
        return True

    def state(self, point: int, state: numpy.ndarray) -> None:
        """Adds a final state: shape (2^n,), or (2^n, 2^n)."""
        flat = state.reshape(-1).astype(numpy.complex128)
        places = numpy.arange(len(flat))
        rows = {"place": places, "re": flat.real.copy(), "im": flat.imag.copy()}
        if state.ndim == 1:
            self._insert("state_vector", "?, place, re, im", rows, (point,))
            return
        rows |= {"place": places // state.shape[1], "col": places % state.shape[1]}
        self._insert("density_matrix", "?, place, col, re, im", rows, (point,))

    def parts(self) -> Parts:
        """References to the parts, what was added since the last time as a further one. Raises ToolError."""
        for name in self._wanted:
            if self._rows(name):
                self._parts[name].append(self._put(f"SELECT * FROM {name}", name))  # noqa: S608 - our own names
                self._run(f"DELETE FROM {name}")  # noqa: S608
        return self._parts

    def tables(self) -> dict[str, Json]:
        """A reference to each table as a whole. Raises ToolError."""
        return {name: self._whole(name, parts) for name, parts in self.parts().items() if parts}

    def _whole(self, name: Kept, parts: Sequence[JsonMap]) -> JsonMap:
        if len(parts) == 1:
            return parts[0]
        assert self._shelf is not None  # see __enter__
        with contextlib.ExitStack() as stack:
            files = [str(stack.enter_context(self._shelf.results.file(part))) for part in parts]
            listed = ", ".join(f"'{file}'" for file in files)
            return self._put(f"SELECT * FROM read_parquet([{listed}])", name)  # noqa: S608

    def _put(self, query: str, name: Kept) -> JsonMap:
        assert self._shelf is not None  # see __enter__
        path = self._folder / f"{name}.parquet"
        self._run(f"COPY ({query} ORDER BY {_TABLES[name][1]}) TO '{path}' ({PARQUET_OPTIONS})")
        if path.stat().st_size > self._shelf.most_bytes:
            message = f"`keep: {name}` is larger than the {self._shelf.most_bytes:,} bytes that are allowed."
            raise ToolError("limit", message, type="TooManyBytes")
        return self._shelf.put_parquet(path)

    def _insert(
        self, name: Kept, columns: str, rows: Mapping[str, numpy.ndarray], values: tuple[object, ...]
    ) -> None:
        if self._database is None or name not in self._wanted:
            return
        self._database.register("given", dict(rows))
        self._database.execute(f"INSERT INTO {name} SELECT {columns} FROM given", values)  # noqa: S608
        self._database.unregister("given")

    def _rows(self, name: Kept) -> int:
        assert self._database is not None  # nothing is wanted where there is none
        found = self._database.execute(f"SELECT count(*) FROM {name}").fetchone()  # noqa: S608
        return int(found[0]) if found else 0

    def _run(self, statement: str) -> None:
        assert self._database is not None
        self._database.execute(statement)


def _texts(bits: numpy.ndarray) -> numpy.ndarray:
    """Each row of zeros and ones as a text, as objects: shape (rows,)."""
    letters = numpy.ascontiguousarray(bits + ord("0"), dtype=numpy.uint8)
    return letters.view(f"S{bits.shape[1]}").ravel().astype(str).astype(object)


@contextlib.contextmanager
def _opened(folder: Path, tables: Iterable[Kept]) -> Iterator[DuckDBPyConnection]:
    import duckdb  # the driver takes 90 ms, and most tasks keep nothing

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": "256MB",
        "threads": 1,
        "temp_directory": str(folder),
    }
    with duckdb.connect(str(folder / "kept.duckdb"), config=settings) as connection:
        for name in tables:
            connection.execute(f"CREATE TABLE {name} ({_TABLES[name][0]})")
        yield connection
