"""The runner's entry: `python -I launch.py CONTROL_FD ROOT WARM`.

Loads this directory as a package of its own name, so that neither `noetl` nor anything that user code
could shadow or miss is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "_noetl_runner"


def main() -> None:
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"The runner's files are not in {here}.")
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    server = importlib.import_module(f"{NAME}.server")
    server.main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))


if __name__ == "__main__":
    main()
