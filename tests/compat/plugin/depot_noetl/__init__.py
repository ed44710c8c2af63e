"""Tools and secrets of a depot."""
