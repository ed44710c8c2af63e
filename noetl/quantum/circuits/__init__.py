"""Circuits: read, built, checked, compiled and placed. All of it needs Cirq."""
