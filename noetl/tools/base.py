"""What packages with tools of their own import; see docs/write-a-tool.md. The classes stand in `noetl.tools.kit`."""

from noetl.tools.kit.base import Services, Tool, ToolConfig

__all__ = ["Services", "Tool", "ToolConfig"]
