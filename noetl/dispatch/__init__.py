"""How messages leave: through Celery, or through threads of this process.

Adapters of `noetl.usecases.ports.Dispatcher`.
"""
