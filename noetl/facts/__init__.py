"""Frozen data that every layer shares: events, outcomes, identifiers.

Imports nothing of NoETL but `noetl.errors`.
"""
