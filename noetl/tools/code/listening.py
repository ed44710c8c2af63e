"""What user code prints: as text without the secrets of its call for the log, and, of inline code,
where the worker's own output goes."""

from __future__ import annotations

import codecs
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from noetl.facts.logs import Log, Stream
from noetl.pipeline.model import Call
from noetl.tools.code.runner.exchange import Listen, PrintStream, ignore_output
from noetl.tools.kit.call_secrets import current_mask
from noetl.tools.kit.masking import SecretMask


class MaskedStream:
    """Bytes in, text without secrets out. Where a secret may have begun, its beginning waits for
    what follows."""

    def __init__(self, black: SecretMask) -> None:
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

    def __init__(self, log: Log, black: SecretMask) -> None:
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
    """Takes what `call` prints, where that is kept."""
    return ignore_output if call is None or call.log is None else Listener(call.log, current_mask())


class _Tee:
    """Stands for `sys.stdout` or `sys.stderr` while inline code runs. Other threads write as
    ever."""

    def __init__(self, stream: TextIO, name: PrintStream, listen: Listen) -> None:
        self._stream = stream
        self._name = name
        self._listen = listen
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread:
            self._listen(self._name, text.encode("utf-8", "backslashreplace"))
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def tee(listen: Listen) -> Iterator[None]:
    """Lets `listen` hear what this thread prints while the block runs. One block at a time in a
    process."""
    if listen is ignore_output:
        yield
        return
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(before[0], "stdout", listen), _Tee(before[1], "stderr", listen)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        listen("stdout", None)
        listen("stderr", None)
