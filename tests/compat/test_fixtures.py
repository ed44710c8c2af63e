"""Fixtures are what older versions left; nobody edits them."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent


def test_no_fixture_was_edited() -> None:
    sums = (line.split("  ", 1) for line in (HERE / "SHA256SUMS").read_text().splitlines())
    edited = [name for kept, name in sums if hashlib.sha256((HERE / name).read_bytes()).hexdigest() != kept]
    assert edited == [], "make a new fixture beside it"


def test_every_fixture_has_its_sum() -> None:
    named = {line.split("  ", 1)[1] for line in (HERE / "SHA256SUMS").read_text().splitlines()}
    plugin = [path for path in (HERE / "plugin").rglob("*") if "__pycache__" not in path.parts]
    fixtures = [*plugin, *HERE.glob("*.?z")]
    assert {str(path.relative_to(HERE)) for path in fixtures if path.is_file()} == named
