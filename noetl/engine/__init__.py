"""The decisions: state, evolve, decide, joins, loops. No I/O, no clock, no identifiers drawn here.

Imports `net`, `expressions`, `facts` and `errors`.
"""
