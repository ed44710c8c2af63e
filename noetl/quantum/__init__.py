"""The tool `quantum`: circuits on simulators and on machines elsewhere.

`tool`, `config` and `model` are imported wherever kinds are listed, so they name Cirq in annotations only; everything
else here needs it, and is imported by the first call.
"""
