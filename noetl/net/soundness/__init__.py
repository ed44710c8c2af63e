"""Whether every run of a net comes to an end properly, whatever its guards say.

Imports nothing but the net. `decide` answers; `shape` is the guard-free net, `reduce` makes it
smaller, `firing` plays it as the engine does, `explore` goes through all that can happen.
"""

from noetl.net.soundness.decide import decide
from noetl.net.soundness.verdict import (
    Move,
    NotDecided,
    Sound,
    SoundnessBounds,
    Unsound,
    Unsoundness,
    Verdict,
)

__all__ = ["Move", "NotDecided", "Sound", "SoundnessBounds", "Unsound", "Unsoundness", "Verdict", "decide"]
