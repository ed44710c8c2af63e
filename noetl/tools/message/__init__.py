"""The tool `message`."""
