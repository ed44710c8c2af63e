"""A program of another language, as another user: `python -m tests.becoming UID GID PROGRAM WORDS`.

For what the zygote keeps for a whole run: it dies with the zygote, which a change of user forgets.
"""

from __future__ import annotations

import os
import sys

from noetl.processes import die_with_parent

if __name__ == "__main__":
    uid, gid = int(sys.argv[1]), int(sys.argv[2])
    if (uid, gid) != (os.getuid(), os.getgid()):
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    die_with_parent()
    os.execv(sys.argv[3], sys.argv[3:])
