"""The command line that puts the runner, with all its children, inside bubblewrap.

Resource limits isolate nothing: a child of the same user reads that user's files and reaches the
network. Inside, there is no network, no process of the host, and no file but the interpreter's,
what it imports from, the playbook's directory, and a scratch directory, the only one that can be
written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

#: Read-only where they exist: programs, libraries, and the few files that programs look up.
_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl",
)
#: Separate namespaces for everything, and no capability, under whatever user the worker runs.
_ALONE = ("--unshare-all", "--cap-drop", "ALL")
_TRIAL_S = 10


class NoSandbox(Exception):
    """There is no bubblewrap, or it cannot make a sandbox here. The message says which."""


def trouble() -> str:
    """Why no sandbox can be made on this machine; empty where one can. Tries it: some tens of
    milliseconds."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap (bwrap) is not on PATH; install it"
    trial = [program, *_ALONE, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    try:
        ended = subprocess.run(trial, capture_output=True, check=False, timeout=_TRIAL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap ({program}) cannot be run: {error}"
    if ended.returncode == 0:
        return ""
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {ended.returncode}"]
    return f"bubblewrap cannot make one here ({said[-1]}); it needs user namespaces"


def sandbox_command(
    command: list[str], root: str, shown: str, readable: Iterable[Path] = (), hidden: Iterable[Path] = ()
) -> list[str]:
    """`command` in a sandbox that may write below `root` only. Raises NoSandbox where there is no
    bubblewrap.

    `readable` are directories that can be read beside those of the system and the interpreter,
    `shown` one below `root` that can be read only. `hidden` ones are empty inside, even where a
    readable one holds them."""
    program = shutil.which("bwrap")
    if program is None:
        raise NoSandbox(trouble())
    noetl = str(Path(__file__).resolve().parents[3])
    mounts = list(
        dict.fromkeys([*_SYSTEM, sys.base_prefix, sys.prefix, *_import_path(), noetl, *map(str, readable)])
    )
    covered = _cover(mounts, hidden)
    # Files in memory, which the sandbox's own /dev would hide.
    below_dev = [mount for mount in mounts if _is_below_dev(mount)]
    # No --die-with-parent: it ends the sandbox with the *thread* that started it. The runner ends
    # by itself when its control socket closes, and everything inside ends with it.
    return [
        *(program, *_ALONE, "--tmpfs", "/tmp"),  # noqa: S108 - the sandbox's own
        *_read_only(mounts),
        *_empty(covered, mounts),
        *("--proc", "/proc", "--dev", "/dev"),
        *_read_only(below_dev),
        *_empty(filter(_is_below_dev, covered), below_dev),
        *("--bind", root, root, "--ro-bind", shown, shown, "--chdir", root),
        # Last: what lies on them had to be made.
        *(word for path in ["/", *map(str, covered)] for word in ("--remount-ro", path)),
        "--",
        *command,
    ]


def _is_below_dev(path: str | Path) -> bool:
    return Path("/dev") in Path(path).parents


def _read_only(paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind-try", path, path)]


def _cover(mounts: list[str], hidden: Iterable[Path]) -> list[Path]:
    """Where hidden directories would be seen: a link to one must not show it, nor one to a
    mount."""
    seen = dict[Path, None]()
    for real in (path.resolve() for path in hidden):
        for mount in mounts:
            held = Path(mount).resolve()
            if real.is_relative_to(held):
                seen[Path(mount) / real.relative_to(held)] = None
    return list(seen)


def _empty(covered: Iterable[Path], mounts: list[str]) -> list[str]:
    """Covers what a mount would show; mounts that lie inside of it are made again."""
    words: list[str] = []
    for path in covered:
        inner = (mount for mount in mounts if Path(mount) != path and Path(mount).is_relative_to(path))
        words += ["--tmpfs", str(path), *_read_only(inner)]
    return words


@cache
def _import_path() -> tuple[str, ...]:
    """What the runner imports from. Not the worker's own `sys.path`: the directory that it was
    started in may stand there, and need not be for everybody's eyes."""
    asked = [sys.executable, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"]
    answer = subprocess.run(asked, capture_output=True, check=True, env={}, timeout=60)
    return tuple(entry for entry in json.loads(answer.stdout) if Path(entry).exists())
