"""What circuits are written as, compiled to and sampled as is the same in every process, whatever
the order of its hashes: one other process tells of all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from runpy import run_path

#: What tells of it: a file beside this one → a function in it.
TOLD_BY = {
    "test_canonical.py": "hashes_of_circuits",
    "test_compiling.py": "text_of_a_compiled_circuit",
    "test_local.py": "all_digests",
}


def tell() -> dict[str, object]:
    folder = Path(__file__).parent
    return {name: run_path(str(folder / name))[function]() for name, function in TOLD_BY.items()}


def test_every_process_writes_compiles_and_samples_the_same() -> None:
    script = f"import json, runpy; print(json.dumps(runpy.run_path({__file__!r})['tell']()))"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )

    here = tell()
    assert json.loads(done.stdout) == here
    hashes = here["test_canonical.py"]
    assert isinstance(hashes, list)
    assert len(set(hashes)) == 5
