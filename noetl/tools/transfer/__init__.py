"""The tool `transfer`."""
