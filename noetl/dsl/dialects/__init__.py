"""From all that people write to the canonical form: other dialects and older spellings are
rewritten, part by part.

Plain data in, plain data out, with the origin of every part, so that problems found later point at
what was written. `noetl migrate` prints what comes out. Imports the document model, what reports
problems, and what guards mean.
"""
