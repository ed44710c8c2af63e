"""The tool `sqlite`."""
