"""What packages with tools of their own import; see docs/how-to/write-a-tool.md. The classes stand
in `noetl.tools.kit`."""

from noetl.net.model import Effects
from noetl.tools.kit.base import Services, Tool, no_credentials, no_directories
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration

__all__ = [
    "Effects",
    "Services",
    "Tool",
    "ToolConfig",
    "ToolDeclaration",
    "no_credentials",
    "no_directories",
]
