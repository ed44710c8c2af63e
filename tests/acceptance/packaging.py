"""Distributions of NoETL, built from the tree as it stands, and fresh environments that they are
installed in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port
from tests.services import spawn
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[2]

#: A build without isolation takes setuptools from the running environment: no index is asked.
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
_BUILD = "import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"


def git(folder: Path, *argv: str) -> str:
    """What git prints in `folder`."""
    done = subprocess.run(["git", "-C", str(folder), *argv], check=True, capture_output=True, text=True)
    return done.stdout


def copy_tree(target: Path) -> Path:
    """A clone of the repository at `target`, with what is not committed yet committed there."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    changed = git(ROOT, "diff", "--name-only", "--no-renames", "-z", "HEAD")
    untracked = git(ROOT, "ls-files", "-z", "--others", "--exclude-standard")
    for name in filter(None, (changed + untracked).split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
        else:
            (target / name).unlink()
    commit(target, "The tree as it stands")
    return target


def commit(clone: Path, message: str) -> str:
    """Commits everything in `clone`, or nothing at all. Returns the abbreviated id."""
    git(clone, "add", "--all")
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    git(clone, *identity, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(clone, "rev-parse", "--short=7", "HEAD").strip()


def build_sdist(source: Path, folder: Path) -> Path:
    """The source distribution of `source`, in `folder`."""
    return _run_hook(source, folder, "build_sdist", "*.tar.gz")


def metadata_version(source: Path, folder: Path) -> str:
    """The version that a wheel of `source` would have."""
    found = _run_hook(source, folder, "prepare_metadata_for_build_wheel", "*.dist-info")
    lines = (found / "METADATA").read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))


def _run_hook(source: Path, folder: Path, hook: str, pattern: str) -> Path:
    argv = [sys.executable, "-c", _BUILD.format(hook=hook), str(folder)]
    folder.mkdir(exist_ok=True)
    subprocess.run(argv, cwd=source, check=True, capture_output=True, text=True)
    (found,) = folder.glob(pattern)
    return found


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a tree or of a source distribution, in `folder`."""
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    subprocess.run([*_PIP, "wheel", *options, str(source)], check=True)
    (found,) = folder.glob("*.whl")
    return found


@dataclass(frozen=True)
class Environment:
    """A virtual environment outside of the repository, and an empty directory to work in.

    It has what the running environment has, but for NoETL: that has to be installed.
    """

    root: Path

    @classmethod
    def make(cls, root: Path) -> Environment:
        """A new one in `root`. Takes half a second: nothing is copied."""
        made = cls(root)
        venv.create(root / "venv", with_pip=False, symlinks=True)
        made.work.mkdir()
        libraries = Path(sysconfig.get_path("purelib"))
        target = made.site
        for entry in libraries.iterdir():
            if "noetl" not in entry.name and not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
        return made

    @property
    def work(self) -> Path:
        """Where commands run."""
        return self.root / "work"

    @property
    def bin(self) -> Path:
        return self.root / "venv" / "bin"

    @property
    def site(self) -> Path:
        """Where installed packages are."""
        (found,) = (self.root / "venv" / "lib").glob("python*/site-packages")
        return found

    @property
    def variables(self) -> dict[str, str]:
        """The running environment's, without NoETL's, without Python's paths, with a home and ports
        of its own."""
        outside = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("NOETL_", "PYTHON", "VIRTUAL_ENV", "COVERAGE"))
        }
        path = f"{self.bin}{os.pathsep}{outside.get('PATH', '')}"
        return {**outside, "PATH": path, "NOETL_HOME": str(self.root / "home")}

    def install(self, *requirements: str) -> None:
        """Installs with pip, without an index: what is missing is an error, and nothing is
        downloaded."""
        pip = (*_PIP, "--python", str(self.bin / "python"), "install", "--no-index", "--no-compile")
        subprocess.run([*pip, "--no-build-isolation", *requirements], check=True, cwd=self.work)

    def run(self, *argv: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, in the empty directory, to its end."""
        done = subprocess.run(
            [str(self.bin / argv[0]), *argv[1:]],
            cwd=self.work,
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    @contextmanager
    def running(self, name: str, argv: Sequence[str], **variables: str) -> Iterator[None]:
        """A service of the environment's Python, in the empty directory, for as long as the block
        runs."""
        command = [str(self.bin / "python"), *argv]
        log = self.root / f"{name}.log"
        service = spawn(command, log, cwd=self.work, env={**self.variables, **variables})
        try:
            yield
            assert service.poll() is None, f"{name} ended:\n{log.read_text()}"
        finally:
            service.terminate()
            service.wait(GUARD_S)


def ports() -> dict[str, str]:
    """Settings of a stack that nobody else is in the way of."""
    return {"NOETL_PORT": str(free_port()), "NOETL_FLOWER_PORT": str(free_port())}
