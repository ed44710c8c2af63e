"""The one rule for files: which of them a task may name, and where relative names start.

What this machine's user starts reaches files as that user. Everything else reaches what lies below
the roots of `NOETL_FILE_ROOTS`. Not reached is what the engine keeps to itself: its home, the files
of its keys, and `/proc`. Names are judged by where they lead, links resolved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noetl.errors import ToolError

#: The environments of processes lie here, and with them what the engine was given.
PROC: Final = Path("/proc")
#: Characters of a name that messages repeat.
LONGEST_NAME: Final = 200
#: Bytes of one name between slashes: file systems take no more.
_LONGEST_PART: Final = 255


@dataclass(frozen=True)
class FilePolicy:
    """Which files tools may name, made of the settings and of who started the process."""

    #: Whether this machine's user started the process: without roots it may name all that the user
    #: can reach.
    as_user: bool = False
    #: Directories that every file must lie below. Empty: all of them for the user, none for anybody
    #: else.
    roots: tuple[Path, ...] = ()
    #: Directories that relative names start from: the playbook's, then that of the command.
    directories: tuple[Path, ...] = ()
    #: What the engine keeps to itself, directories and files.
    private: tuple[Path, ...] = (PROC,)

    @property
    def is_bound(self) -> bool:
        """Whether files must lie below roots."""
        return bool(self.roots) or not self.as_user

    @property
    def start(self) -> Path | None:
        """The directory that user code starts in; None: there is none, and it starts in scratch."""
        return self.directories[0] if self.directories else None

    @property
    def places(self) -> tuple[Path, ...]:
        """Where a relative name is looked for, in order."""
        return tuple(dict.fromkeys((*self.directories, *self.roots)))

    def path(self, name: str, what: str) -> Path:
        """The file that `name` means, without links, whether or not it is there: of a relative name
        the first that is there, else the one in the first place.

        `what` is how messages call the key that it stands in. Raises ToolError(client_error).
        """
        candidates = self.candidates(name, what)
        return self.check(next((path for path in candidates if path.exists()), candidates[0]), name, what)

    def target(self, name: str, what: str) -> Path:
        """The file that `name` means for writing: of a relative name the one in the first place.
        Raises as `path`."""
        return self.check(self.candidates(name, what)[0], name, what)

    def existing(self, name: str, what: str) -> Path:
        """The file that `name` means, which is there. Raises ToolError(client_error) that names
        every place that was looked at."""
        candidates = self.candidates(name, what)
        found = next((path for path in candidates if path.exists()), None)
        if found is None:
            for path in candidates:  # whether there is a file is said of those alone that may be named
                self.check(path, name, what)
            places = "" if Path(name).is_absolute() else f" in {' or '.join(map(str, self.places))}"
            raise bad_path(f"{what} '{_show(name)}' cannot be read: there is no such file{places}.", "NoFile")
        return self.check(found, name, what)

    def check(self, path: Path, name: str, what: str) -> Path:
        """`path`, where files may be named there. Raises ToolError(client_error)."""
        if self.is_private(path):
            raise bad_path(
                f"{what} '{_show(name)}' leads to what the engine keeps to itself; put the file elsewhere."
            )
        roots = [root.resolve() for root in self.roots]
        if self.is_bound and not any(path.is_relative_to(root) and path != root for root in roots):
            raise bad_path(f"{what} '{_show(name)}' {self._outside()}")
        return path

    def is_private(self, path: Path) -> bool:
        """Whether `path`, without links, is what the engine keeps to itself."""
        return any(path.is_relative_to(own.resolve()) for own in self.private)

    def holds_private(self, directory: Path) -> bool:
        """Whether something that the engine keeps to itself lies in or below `directory`."""
        return any(own.resolve().is_relative_to(directory) for own in self.private)

    def _outside(self) -> str:
        if not self.roots:
            return (
                "cannot be reached: this process serves others than this machine's user and has "
                "no roots for files; "
                "set NOETL_FILE_ROOTS on the worker."
            )
        return (
            f"leads out of {' and '.join(map(str, self.roots))}; put the file there, or name its folder in "
            "NOETL_FILE_ROOTS on the worker."
        )

    def candidates(self, name: str, what: str) -> list[Path]:
        """Where `name` may lie, without links, in order and unchecked; at least one. Raises
        ToolError(client_error)."""
        relative = name.removeprefix("~/")
        places = (Path("/"),) if Path(name).is_absolute() else self.places
        if not places and not self.as_user:
            raise bad_path(f"{what} '{_show(name)}' {self._outside()}")
        if not places:
            raise bad_path(
                f"{what} '{_show(name)}' is relative, and this playbook has no directory; name "
                "it by its absolute path."
            )
        return [_resolve(place / relative, name, what) for place in places]


def _resolve(path: Path, name: str, what: str) -> Path:
    try:
        found = path.resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a NUL, a loop of links, a name that is too long
        raise bad_path(f"{what} names no usable file: {error}.") from error
    if any(map(is_long, found.parts)):
        raise bad_path(f"{what} '{_show(name)}' names no usable file: it is too long.")
    return found


def is_long(part: str) -> bool:
    """Whether one name between slashes is longer than file systems take."""
    return len(part.encode("utf-8", "replace")) > _LONGEST_PART


def bad_path(message: str, type: str = "BadPath") -> ToolError:
    """What to raise for a name that cannot be used."""
    return ToolError("client_error", message, type=type)


def _show(name: str) -> str:
    return name[:LONGEST_NAME]


def advise_folder(path: Path) -> str:
    """The end of a sentence that says that a file cannot be made or opened: what to do where its
    directory is not there."""
    if path.parent.is_dir():
        return ""
    return f"; there is no directory {path.parent}: make it before, as with `mkdir -p` in a shell task"
