"""Playbooks are found among the files below a directory, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noetl.store import library
from noetl.store.library import FileLibrary

TEXT = "metadata: {{name: n, path: {}}}\nworkflow: [{{step: start}}]\n"


def write(file: Path, path: str, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text or TEXT.format(path))
    return file


def found(root: Path, path: str) -> str | None:
    file = FileLibrary(root).find(path)
    return None if file is None else file.file


def test_files_of_both_kinds_are_found_at_any_depth(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.yaml", "a/one"), write(tmp_path / "x/y/two.yml", "a/two")
    write(tmp_path / "three.json", "a/three")
    files = FileLibrary(tmp_path)
    assert sorted(files.paths()) == ["a/one", "a/two"]
    assert (found(tmp_path, "a/one"), found(tmp_path, "a/two")) == (str(one), str(two))
    assert (file := files.find("a/two")) is not None
    assert file.content == TEXT.format("a/two")
    assert files.find("a/three") is None


def test_of_two_files_with_one_path_the_nearer_counts_then_the_first_by_name(tmp_path: Path) -> None:
    write(tmp_path / "a/far.yaml", "p")
    write(tmp_path / "z.yaml", "p")
    nearest = write(tmp_path / "y.yaml", "p")
    assert found(tmp_path, "p") == str(nearest)


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    secret = write(outside / "secret.yaml", "secret")
    inside = write(root / "inner/inside.txt", "inside")
    (root / "link.yaml").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "self.yaml").symlink_to(root / "self.yaml")
    (root / "good.yaml").symlink_to(inside)
    assert FileLibrary(root).paths() == ["inside"]


def test_anything_but_a_playbook_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / ".hidden.yaml", "hidden")
    write(tmp_path / ".git/x.yaml", "git")
    write(tmp_path / "large.yaml", "", TEXT.format("large") + "#" * 300_000)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00metadata")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    closed = write(tmp_path / "closed.yaml", "closed")
    closed.chmod(0)
    for number, text in enumerate(("", "[" * 100_000, "[1, 2]", "metadata: [", "a: b: c", "metadata: 1")):
        write(tmp_path / f"bad{number}.yaml", "", text or "\n")
    write(tmp_path / "good.yaml", "good")
    known = {"good"} if os.geteuid() else {"good", "closed"}
    assert set(FileLibrary(tmp_path).paths()) == known


def test_a_file_is_found_by_what_it_says_of_itself_whatever_follows(tmp_path: Path) -> None:
    write(tmp_path / "broken.yaml", "", "metadata: {path: broken}\nworkflow: [}\n")
    write(tmp_path / "named.yaml", "", "kind: Playbook\nx: {metadata: {path: no}}\nmetadata: {name: named}\n")
    assert sorted(FileLibrary(tmp_path).paths()) == ["broken", "named"]


def test_nothing_is_looked_at_before_the_first_question(tmp_path: Path) -> None:
    files = FileLibrary(tmp_path)
    write(tmp_path / "late.yaml", "late")
    assert files.find("late") is not None


def test_a_directory_that_is_not_there_has_no_playbooks(tmp_path: Path) -> None:
    assert FileLibrary(tmp_path / "nowhere").find("x") is None


@pytest.mark.parametrize(("bound", "value"), [("MAX_NAMES", 3), ("MAX_FILES", 3), ("MAX_TOTAL_BYTES", 120)])
def test_a_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    for number in range(9):
        write(tmp_path / f"{number}.yaml", str(number))
    monkeypatch.setattr(library, bound, value)
    assert len(FileLibrary(tmp_path).paths()) == 3


def test_a_file_that_has_gone_meanwhile_is_none(tmp_path: Path) -> None:
    file = write(tmp_path / "one.yaml", "one")
    files = FileLibrary(tmp_path)
    assert files.paths() == ["one"]
    file.unlink()
    assert files.find("one") is None
