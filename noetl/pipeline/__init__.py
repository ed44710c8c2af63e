"""The interpreter of task pipelines: program counter, policy, scopes.

Pure but for the tool it is handed. Imports `net`, `expressions`, `facts` and `errors`.
"""
