"""The rules dialect: steps with rules that run steps, tasks and actions; branches; loops around
several steps.

`rewrite` is the pass. It parses every `next` into arcs that can be changed (`drafts`,
`parsing`), puts what rules run behind their step (`sequence`, `choosing`, `pipelines`), and
writes loops that enclose steps as cycles (`loop_regions`, `cycles`).
"""
