"""What a task asks for, and its results: from the keys to circuits at the points of a sweep,
run in the worker."""
