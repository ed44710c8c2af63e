"""Measurements of NoETL, paired with raw Celery on the same Redis: `make bench`.

Not installed with the package. Imports `noetl`, and `tests.services` for the servers.
"""
