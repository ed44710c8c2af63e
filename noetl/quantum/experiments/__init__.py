"""What a task asks for, and what came of it: from the keys to circuits at the points of a sweep,
run in the worker."""
