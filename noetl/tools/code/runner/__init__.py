"""User code runs here: in children of a slim process, never in the worker.

`client` belongs to the worker. All other modules are the runner's and its children's own: they import
the standard library and each other, nothing else, because what the runner imports every child pays for.
"""
