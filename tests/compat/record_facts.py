"""Records what the events of a version say: `python record_facts.py VERSION`, with its code."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from facts import fields_of_events

if __name__ == "__main__":
    text = json.dumps(fields_of_events(), sort_keys=True, indent=0)
    packed = gzip.compress(text.encode(), mtime=0)
    Path(__file__).with_name(f"facts-{sys.argv[1]}.json.gz").write_bytes(packed)
