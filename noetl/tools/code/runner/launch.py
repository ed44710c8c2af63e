"""The runner's entry: `python -I launch.py CONTROL_FD ROOT WARM GRACE_S`.

Loads the files of NoETL as a package of another name, without running what `noetl` itself does when
it is imported: nothing that user code could shadow or miss is looked up."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

NAME = "_noetl_runner"


def main() -> None:
    package = ModuleType(NAME)
    package.__path__ = [str(Path(__file__).resolve().parents[3])]
    sys.modules[NAME] = package
    server = importlib.import_module(f"{NAME}.tools.code.runner.server")
    server.main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))


if __name__ == "__main__":
    main()
