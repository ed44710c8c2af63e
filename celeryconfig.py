worker_concurrency = 2
