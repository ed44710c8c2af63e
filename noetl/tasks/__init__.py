"""The Celery tasks: thin entries that hand ids to use cases.

An entry: it imports `bootstrap` and what lies below, never another entry.
"""
