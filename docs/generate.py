"""Writes the pages of `docs/tools/` from the tools themselves: `make docs`, which a test asks for when they are stale."""

from __future__ import annotations

from pathlib import Path

from noetl.tools import manual
from noetl.tools.registry import entry_points, is_built_in, load

FOLDER = Path(__file__).parent / "tools"


def pages() -> dict[str, str]:
    """The name of each file below `docs/tools/`, and what has to stand in it."""
    kinds = sorted(kind for kind in entry_points() if is_built_in(kind))
    manuals = {kind: manual.manual_of(load(kind)) for kind in kinds}
    texts = {f"{kind}.md": manual.page(one) for kind, one in manuals.items()}
    return {"README.md": manual.index(manuals), **texts}


def write() -> None:
    """Brings the folder up to date."""
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
