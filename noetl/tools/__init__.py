"""What tasks do: a room or a file for each tool kind, found through the entry-point group
`noetl.tools`.

Adapters of `noetl.pipeline.model.ToolPort`. They see rendered calls and know no store and no
broker."""
