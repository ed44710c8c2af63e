"""The definition of what runs: a Petri net of steps, frozen, without behaviour.

Imports nothing of NoETL but `noetl.facts` and `noetl.errors`. Instances live in `noetl.engine`.
"""
