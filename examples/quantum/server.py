"""IonQ's API v0.4 on this machine, for `ionq_submit_poll.yaml`: jobs wait a while, and circuits are
really simulated.

    python examples/quantum/server.py [--port 8766] [--queue 3] [--run 1]

Prints its address, and how its key is made known. It is the mock of the tests, and needs a copy of
the repository.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.quantum.ionq import KEY, IonQServer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="IonQ's API v0.4 on this machine.")
    parser.add_argument("--port", type=int, default=8766, help="port of 127.0.0.1; 0: any that is free")
    parser.add_argument("--queue", type=float, default=3.0, help="seconds that a job waits")
    parser.add_argument("--run", type=float, default=1.0, help="seconds that it runs")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    with IonQServer(given.port) as server:
        server.queue_s, server.run_s = given.queue, given.run
        print(server.url)
        print(f"noetl credential set ionq --type bearer --data '{json.dumps({'token': KEY})}'", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.stopping.set()


if __name__ == "__main__":
    main()
