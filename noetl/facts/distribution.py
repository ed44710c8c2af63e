"""What NoETL is called where packages are installed from: the package `noetl` is of the
distribution `noetl-celery`."""

from __future__ import annotations

from typing import Final

#: Not `noetl`: a public index has another project under that name, which would be installed over
#: ours.
DISTRIBUTION: Final = "noetl-celery"


def install_line(extra: str) -> str:
    """The command that installs what an extra of NoETL needs, into an environment that has NoETL.

    pip finds the installed NoETL, from wherever it came, and downloads what the extra lacks alone.
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
