"""Runs the example playbooks through the whole stack on this machine, then stops all of it.

    make run
    python examples/run.py [FILE...]         # these playbooks only

Serves the data on a free port, hands the files to `noetl up --run`, and exits with its code. What
the stack keeps (database, logs, results) stays in NOETL_HOME (default: `.noetl` in the current
directory) for a look afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

from server import ExamplesServer, NoData

HERE = Path(__file__).resolve().parent
PLAYBOOKS = ("hello.yaml", "weather.yaml", "airports.yaml")


def command(files: list[str], url: str, out: Path) -> list[str]:
    """The `noetl up` that runs `files` against the data at `url`; they write below `out`."""
    noetl = Path(sys.executable).with_name("noetl")
    runs = [word for file in files for word in ("--run", file)]
    settings = ["--set", f"+base_url={url}", "--set", f"+out_dir={out}"]
    return [str(noetl), "up", *runs, *settings]


def supervise(words: list[str], home: Path) -> int:
    """Runs the command to its end. Ctrl-C reaches it by itself; a TERM is passed on, so that it can
    stop its children."""
    child = subprocess.Popen(words, env={**os.environ, "NOETL_HOME": str(home)})

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = child.wait()
    # A child that a signal ended has a negative code; shells say 128 + its number.
    return code if code >= 0 else 128 - code


def main() -> int:
    files = sys.argv[1:] or [str(HERE / name) for name in PLAYBOOKS]
    home = Path(os.environ.get("NOETL_HOME") or ".noetl").resolve()
    try:
        server = ExamplesServer()
    except (NoData, OSError) as error:
        print(f"The examples' data cannot be served: {error}", file=sys.stderr)
        return 1
    threading.Thread(target=server.serve_forever, name="examples-server", daemon=True).start()
    try:
        # Beside the home, and not in it: what lies there is the engine's own.
        return supervise(command(files, server.url, home.with_name(f"{home.name}-out")), home)
    except FileNotFoundError as error:
        print(f"{error.filename} is not there; install NoETL first: make venv", file=sys.stderr)
        return 1
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())
