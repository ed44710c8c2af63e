"""Text to plain data with positions, and back."""
