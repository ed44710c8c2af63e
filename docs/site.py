"""Hooks of `make docs-site`: pages are written for GitHub, and a site differs in four things.

A link out of docs/ leads to the repository, and is plain text where `repo_url` does not say where
that is. The folder of decisions gets a page that lists them. Blocks that are `yaml bad` are YAML,
and bars of code in tables need no escape.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

DECISIONS = Path(__file__).parent / "decisions"

_CODE = re.compile(r"`[^`]+`")
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the list of decisions."""
    from properdocs.structure.files import File

    listed = "\n".join(f"- [{_title(file)}]({file.name})" for file in sorted(DECISIONS.glob("*.md")))
    files.append(File.generated(config, "decisions/index.md", content=f"# Decisions\n\n{listed}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001
    """The page with its links out of docs/ replaced."""
    folder = dirname(page.file.src_uri)

    def replace(found: re.Match[str]) -> str:
        path = normpath(join("docs", folder, found[2]))
        if path.startswith("docs"):
            return found[0]
        return f"[{found[1]}]({config.repo_url}/blob/main/{path})" if config.repo_url else found[1]

    lines = _LINK.sub(replace, markdown).replace("```yaml bad\n", "```yaml\n").splitlines()
    return "\n".join(_CODE.sub(_bars, line) if line.startswith("|") else line for line in lines)


def _bars(code: re.Match[str]) -> str:
    """GitHub wants the bars of code in tables escaped, Python-Markdown does not."""
    return code[0].replace("\\|", "|")


def _title(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("# ").strip()
