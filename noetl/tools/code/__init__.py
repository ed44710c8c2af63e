"""The tools `python` and `shell`: code of users in child processes."""
