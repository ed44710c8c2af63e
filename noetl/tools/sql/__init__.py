"""What SQL tools share: texts, parameters, rows, scripts, and what a call has effects on."""
