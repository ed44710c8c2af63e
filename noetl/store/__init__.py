"""The log and its tables on SQLAlchemy, and a twin in memory that passes the same contract suite.

An adapter of `noetl.usecases.ports.Store`: the only code that writes the `event` table.
"""
