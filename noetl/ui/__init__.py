"""Pages for people.

An entry: it imports `bootstrap` and what lies below, never another entry.
"""
