"""Many executions at once: which are meant, what they failed of, and one operation that is done to
all of them. Imports what use cases import."""
