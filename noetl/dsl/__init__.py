"""Front ends: YAML text to a document with positions, to a Net; problems; JSON Schema.

Imports `net`, `expressions`, `facts` and `errors`. The only package that knows a dialect.
"""
