"""Runs the commands of a shell call one after another, until one fails."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any


def run(request: Mapping[str, Any]) -> tuple[bytes, bool]:
    """The answer: `"value": {exit_code, command}`, or `"error"` where a command could not be started.

    `exit_code` is that of the last command that ran, negative for a signal; `command` is its index.
    What they print goes to the pipes that this process has as stdout and stderr.
    """
    ended = {"exit_code": 0, "command": 0}
    for index, argv in enumerate(request["commands"]):
        try:
            ended = {"exit_code": _one(argv, request), "command": index}
        except (OSError, ValueError) as error:
            return b'"error":' + json.dumps(_report(error, argv, request)).encode(), False
        if ended["exit_code"]:
            break
    return b'"value":' + json.dumps(ended).encode(), ended["exit_code"] == 0


def _one(argv: list[str], request: Mapping[str, Any]) -> int:
    stdin = request["stdin"]
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        cwd=request["cwd"],
    ) as process:
        process.communicate(None if stdin is None else stdin.encode())
        return process.returncode


def _report(error: OSError | ValueError, argv: list[str], request: Mapping[str, Any]) -> dict[str, Any]:
    cwd = request["cwd"]
    if isinstance(error, ValueError):
        message = f"The command cannot be started: {error}."
    elif cwd and error.filename == cwd:
        message = f"The directory '{cwd}' (cwd) cannot be entered: {error.strerror}."
    else:
        message = f"The command '{argv[0]}' cannot be started: {error.strerror}."
    return {"type": type(error).__name__, "message": message, "kind": "shell"}
