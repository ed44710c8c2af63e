"""NoETL's settings of Celery. A deployer's `celeryconfig.py` lies over them (see `deployer`).

Lines that look unusual keep a guarantee: which ones do, and how, stands in docs/operations.md.
"""

from __future__ import annotations

# A message is given back when its worker or its child dies; claims in the log keep that from
# doubling work.
task_acks_late = True
task_reject_on_worker_lost = True

# One message at a time and none ahead: short work must not wait behind a long task's prefetch.
worker_prefetch_multiplier = 1
worker_disable_prefetch = True

# Longer than the longest tool deadline, else the broker hands out a task that still runs.
broker_transport_options = {
    "visibility_timeout": 7 * 24 * 3600,
    "queue_order_strategy": "priority",
    "priority_steps": list(range(10)),
    "socket_timeout": 30,
    "socket_connect_timeout": 5,
}
result_backend_transport_options = {"result_chord_ordered": True}

task_serializer = "json"
result_serializer = "json"
accept_content = ["json"]
enable_utc = True

# The log holds results; Celery's only count the lanes of a loop.
task_ignore_result = True
result_expires = 3600

task_publish_retry_policy = {
    "max_retries": 2,
    "interval_start": 0.05,
    "interval_step": 0.2,
    "interval_max": 0.5,
}
broker_connection_retry_on_startup = True
broker_connection_timeout = 5

task_default_queue = "default"
task_create_missing_queues = True
worker_hijack_root_logger = False
worker_send_task_events = True
worker_consumer = "noetl.dispatch.consumer:Consumer"
task_send_sent_event = False
worker_cancel_long_running_tasks_on_connection_loss = False
