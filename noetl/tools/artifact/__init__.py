"""The tool `artifact`."""
