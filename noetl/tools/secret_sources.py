"""What packages with providers of secrets import. The class stands in `noetl.tools.secrets`."""

from noetl.tools.secrets.sources import SourceSettings

__all__ = ["SourceSettings"]
