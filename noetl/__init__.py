"""NoETL: a durable, event-sourced workflow engine for declarative YAML playbooks."""

__version__ = "0.1.0"
