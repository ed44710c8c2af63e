"""The REST API under `/api`: Flask, OpenAPI 3.1, problem+json.

An entry: it imports `bootstrap` and what lies below, never another entry.
"""
