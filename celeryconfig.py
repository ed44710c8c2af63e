"""An example of a deployer's settings of Celery: what stands here lies over NoETL's own.

NoETL takes the `celeryconfig.py` of the working directory, or else the first one on PYTHONPATH.
This one is taken where a process is started in this directory, and says what holds without it.
Settings that keep a guarantee cannot be changed here, and NOETL_BROKER_URL names the broker: see
docs/operations.md.
"""

from __future__ import annotations

#: Whether Flower sees what runs.
worker_send_task_events = True

#: Keys that are not named keep NoETL's values.
broker_transport_options = {"socket_timeout": 30}
