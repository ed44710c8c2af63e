"""Other spellings of canonical keys, and names from elsewhere."""
