"""The page of one execution: its head, and tabs that each show one thing about it."""
