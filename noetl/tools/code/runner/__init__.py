"""User code runs here: in children of a slim process, never in the worker.

`client` belongs to the worker. All other modules belong to the runner and its children: they
import the standard library, each other, `noetl.processes` and `noetl.tools.kit.plain`, by relative
names and nothing else, because what the runner imports every child pays for."""
