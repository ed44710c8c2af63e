"""Document to Net."""
