"""Secrets: credentials at rest, their keys, providers elsewhere, and the tool `secrets`."""
