"""Sandboxed, deterministic Jinja: evaluate, names_used, limits.

Imports nothing of NoETL but `facts` and `errors`.
"""
