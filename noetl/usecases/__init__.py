"""The verbs of the engine, over ports that adapters implement. Ports live here, with their users.

Imports `engine`, `pipeline`, `dsl` and what lies below. No SQLAlchemy, Celery, Flask or files.
"""
