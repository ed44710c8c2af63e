"""The playbooks that files, directories and patterns on the command line name."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from noetl.cli.inputs import STDIN
from noetl.dsl.read.source import MAX_BYTES
from noetl.store.library import SUFFIXES

_ROOT_KEYS: Final = (
    rb"""["']?(apiVersion["']?\s*:\s*["']?noetl\.io/|kind["']?\s*:\s*["']?Playbook\b|workflow["']?\s*:)"""
)
#: A root key that only playbooks have, looked for in the text: what is no YAML may be meant for
#: one.
_IN_YAML: Final = re.compile(rb"^" + _ROOT_KEYS, re.MULTILINE)
_IN_JSON: Final = re.compile(rb"^[\s{]*" + _ROOT_KEYS, re.MULTILINE)
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class NamedFiles:
    """What was found: `files` in the order in which they were named, how many others were passed
    over, and what is wrong with a name, by that name."""

    files: list[Path] = field(default_factory=list)
    passed_over: int = 0
    faults: dict[str, str] = field(default_factory=dict)

    def add(self, files: Iterable[Path]) -> None:
        """Adds files that were not named before."""
        self.files += dict.fromkeys(file for file in files if file not in self.files)


def named(names: Iterable[Path]) -> NamedFiles:
    """The files of `names`. Of a directory those below it that are playbooks, of a pattern
    (`flows/**/*.yaml`) what it matches; names that begin with a dot are passed over there."""
    found = NamedFiles()
    for name in names:
        if name.is_dir():
            _add_directory(found, name)
        elif name == STDIN or name.exists() or not glob.has_magic(str(name)):
            found.add([name])
        else:
            _add_pattern(found, str(name))
    return found


def _add_directory(found: NamedFiles, folder: Path) -> None:
    files = list(_below(folder))
    playbooks = [file for file in files if _is_playbook(file)]
    found.add(playbooks)
    found.passed_over += len(files) - len(playbooks)
    if not playbooks:
        found.faults[str(folder)] = f"No playbook (*.yaml, *.yml) is below {str(folder)!r}"


def _add_pattern(found: NamedFiles, pattern: str) -> None:
    matches = [Path(match) for match in sorted(glob.glob(pattern, recursive=True))]
    for match in matches:
        if match.is_dir():
            _add_directory(found, match)
        else:
            found.add([match])
    if not matches:
        found.faults[pattern] = f"No file matches {pattern!r}"


def _below(folder: Path) -> Iterator[Path]:
    """Files by their kind, those of a directory before those of its directories."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield Path(place, name)


def _is_playbook(file: Path) -> bool:
    """Whether it has a root key of playbooks. What cannot be read counts: whoever reads it says
    why."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES)
    except OSError:
        return True
    text = text.removeprefix(_BOM)
    keys = _IN_JSON if text.lstrip().startswith(b"{") else _IN_YAML
    return keys.search(text) is not None
