"""The tool `postgres`."""
