"""NoETL: a durable, event-sourced workflow engine for declarative YAML playbooks."""

__all__ = ["__version__"]

try:
    from noetl._version import version as __version__
except ModuleNotFoundError:
    # A tree that nothing was installed from: only building and installing ask Git for the version.
    __version__ = "0.1.0.dev0"
