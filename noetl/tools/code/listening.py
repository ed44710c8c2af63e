"""What user code prints, on its way out of a call: as text, without the secrets of the call."""

from __future__ import annotations

import codecs

from noetl.facts.logs import Log, Stream
from noetl.pipeline.model import Call
from noetl.tools.code.runner.exchange import Listen, ignore_output
from noetl.tools.kit.blackout import Blackout
from noetl.tools.kit.opening import blackout


class MaskedStream:
    """Bytes in, text without secrets out. Where a secret may have begun, its beginning waits for what follows."""

    def __init__(self, black: Blackout) -> None:
        self._black = black
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        """What can be shown now."""
        # No database holds NUL in a text.
        text = self._held + self._decoder.decode(data).replace("\0", "\ufffd")
        if not self._black:
            return text
        border = self._black.border(text)
        self._held = text[border:]
        return self._black.text(text[:border])

    def end(self) -> str:
        """The rest. The beginning of a secret that nothing followed is masked as well."""
        text, self._held = self._held + self._decoder.decode(b"", final=True), ""
        return self._black.cut(text) if self._black else text


class Listener:
    """Both streams of one call. What it opens while it runs is masked from then on."""

    def __init__(self, log: Log, black: Blackout) -> None:
        self._log = log
        self._black = black
        self._streams: dict[Stream, MaskedStream] = {}

    def __call__(self, stream: Stream, data: bytes | None) -> None:
        if data is None:
            masked = self._streams.pop(stream, None)
            text = "" if masked is None else masked.end()
        else:
            text = self._streams.setdefault(stream, MaskedStream(self._black)).feed(data)
        if text:
            self._log(stream, text)


def listener(call: Call | None) -> Listen:
    """Hears the call that this thread is in, where somebody keeps what it prints."""
    return ignore_output if call is None or call.log is None else Listener(call.log, blackout())
