"""The tool `http`."""
