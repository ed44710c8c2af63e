"""Where `noetl result` finds results: in the store of the settings, or on a server."""

from __future__ import annotations

import codecs
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from noetl.cli.opened import opened
from noetl.cli.remote import connect
from noetl.client import Client
from noetl.facts.json import Json
from noetl.usecases import results
from noetl.usecases.runtime import Runtime


class ResultReader(Protocol):
    """Where results are fetched from."""

    def page(self, ref: str, limit: int) -> tuple[list[Json], int]:
        """The first items of a list, and its length."""

    def text(self, ref: str) -> Iterator[str]:
        """The JSON of the whole value, in pieces."""

    def save(self, ref: str, target: Path) -> None:
        """Writes the bytes that were kept; of a value its JSON."""


@contextlib.contextmanager
def source_of(server: str | None) -> Iterator[ResultReader]:
    if server is not None:
        with connect(server) as client:
            yield RemoteResults(client)
        return
    with opened() as rt:
        yield LocalResults(rt)


class LocalResults:
    """The store of the settings."""

    def __init__(self, rt: Runtime) -> None:
        self._results = rt.results

    def page(self, ref: str, limit: int) -> tuple[list[Json], int]:
        found = results.page(self._results.load, results.reference_of(ref), 0, limit)
        return found.items, found.length

    def text(self, ref: str) -> Iterator[str]:
        return results.json_of(self._results.load(results.reference_of(ref)), self._results.load)

    def save(self, ref: str, target: Path) -> None:
        reference = results.reference_of(ref)
        if results.is_value(reference):
            with target.open("w", encoding="utf-8") as file:
                file.writelines(self.text(ref))
            return
        with self._results.file(reference) as path:
            shutil.copyfile(path, target)


class RemoteResults:
    """The store of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def page(self, ref: str, limit: int) -> tuple[list[Json], int]:
        found = self._client.result_page(ref, limit=limit)
        return found.items, found.length

    def text(self, ref: str) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for block in self._client.download(ref):
            yield decoder.decode(block)

    def save(self, ref: str, target: Path) -> None:
        with target.open("wb") as file:
            file.writelines(self._client.download(ref, raw=True))
