"""Writes what is made from the program itself: `make docs`, which a test asks for when it is stale.

The pages of `docs/tools/` come from the tools, `docs/playbook.schema.json` from the document model,
`docs/diagnostics.md` from the lessons of the language, `docs/keys.md` from what is declared of each
key.
"""

from __future__ import annotations

import json
from pathlib import Path

from noetl.dsl import json_schema
from noetl.dsl.document import reference
from noetl.dsl.explain.lessons import page
from noetl.tools.kit import manual
from noetl.tools.kit.registry import entry_points, is_built_in, load
from noetl.tools.kit.registry import kinds as installed_kinds

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "playbook.schema.json"


def pages() -> dict[str, str]:
    """The name of each file below `docs/` that is made, and what has to stand in it."""
    kinds = sorted(kind for kind in entry_points() if is_built_in(kind))
    manuals = {kind: manual.manual_of(load(kind)) for kind in kinds}
    texts = {f"tools/{kind}.md": manual.page(one) for kind, one in manuals.items()}
    diagnostics = page({kind: load(kind).info() for kind in kinds})
    return {
        "diagnostics.md": diagnostics,
        "keys.md": reference.page(),
        "tools/README.md": manual.index(manuals),
        **texts,
    }


def schema() -> str:
    """The JSON Schema of playbooks, with the tools that NoETL brings along."""
    kinds = {kind: info for kind, info in installed_kinds().items() if is_built_in(kind)}
    return json.dumps(json_schema(kinds), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Brings everything up to date."""
    SCHEMA.write_text(schema(), encoding="utf-8")
    tools = FOLDER / "tools"
    tools.mkdir(exist_ok=True)
    wanted = pages()
    for file in tools.glob("*.md"):
        if f"tools/{file.name}" not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
