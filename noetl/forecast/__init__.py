"""What an execution would do, before there is one: reachable steps, what they touch, what they
need.

Pure: no tool runs, no secret is opened, nothing is stored. Imports the engine, nets, expressions
and facts.
"""
