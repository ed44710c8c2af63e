"""Writes the pages that are made from the program: those of `docs/tools/` from the tools themselves, `docs/diagnostics.md`
from the lessons of the language. `make docs`, which a test asks for when they are stale."""

from __future__ import annotations

from pathlib import Path

from noetl.dsl.lessons.page import page
from noetl.tools import manual
from noetl.tools.registry import entry_points, is_built_in, load

FOLDER = Path(__file__).parent


def pages() -> dict[str, str]:
    """The name of each file below `docs/` that is made, and what has to stand in it."""
    kinds = sorted(kind for kind in entry_points() if is_built_in(kind))
    manuals = {kind: manual.manual_of(load(kind)) for kind in kinds}
    texts = {f"tools/{kind}.md": manual.page(one) for kind, one in manuals.items()}
    diagnostics = page({kind: load(kind).info() for kind in kinds})
    return {"diagnostics.md": diagnostics, "tools/README.md": manual.index(manuals), **texts}


def write() -> None:
    """Brings them up to date."""
    tools = FOLDER / "tools"
    tools.mkdir(exist_ok=True)
    wanted = pages()
    for file in tools.glob("*.md"):
        if f"tools/{file.name}" not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
