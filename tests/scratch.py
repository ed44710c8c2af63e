"""Where tests put their files: in memory, where there is enough of it.

Thousands of small databases are made and thrown away. On a disk that is a third of the time of a
run, and nothing that a test promises depends on it: what is killed is a process, and what it wrote
is in the kernel by then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_IN_MEMORY = Path("/dev/shm")
#: Bytes that have to be free: of the file system, and of memory besides.
_ROOM = 6 * 2**30


def use_memory() -> None:
    """Makes this process, and those that it starts, put temporary files into memory, unless TMPDIR
    says where."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = str(_IN_MEMORY)
        tempfile.tempdir = None  # asked for anew


def _has_room() -> bool:
    if not os.access(_IN_MEMORY, os.W_OK) or os.statvfs(_IN_MEMORY).f_flag & os.ST_NOEXEC:
        return False
    return min(shutil.disk_usage(_IN_MEMORY).free, psutil.virtual_memory().available - _ROOM) > _ROOM
