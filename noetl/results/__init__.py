"""Results too large for the log, by content, on fsspec.

An adapter of `noetl.usecases.ports.Results`.
"""
