"""The `noetl` command.

An entry: it imports `bootstrap` and what lies below, and starts the other entries as processes.
"""
