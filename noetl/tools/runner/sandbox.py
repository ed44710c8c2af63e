"""The command line that puts the runner, with all its children, inside bubblewrap.

Resource limits isolate nothing: a child of the same user reads that user's files and reaches the
network. Inside, there is no network, no process of the host, and no file but the interpreter's, what it
imports from, and a scratch directory.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
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


class NoSandbox(Exception):
    """Bubblewrap is not installed."""


def wrapped(command: list[str], root: str, readable: Iterable[Path] = ()) -> list[str]:
    """`command` in a sandbox that may write below `root` only. Raises NoSandbox.

    `readable` are directories that can be read beside those of the system and the interpreter.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise NoSandbox
    here = str(Path(__file__).resolve().parent)
    imported = [entry for entry in sys.path if entry and Path(entry).exists()]
    shown = dict.fromkeys([*_SYSTEM, sys.base_prefix, sys.prefix, *imported, here, *map(str, readable)])
    # No --die-with-parent: it ends the sandbox with the *thread* that started it. The runner ends by
    # itself when its control socket closes, and everything inside ends with it.
    arguments = [program, "--unshare-all", "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own
    for path in shown:
        arguments += ["--ro-bind-try", path, path]
    return [
        *arguments,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--bind", root, root, "--chdir", root),
        "--",
        *command,
    ]
