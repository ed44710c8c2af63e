"""The scheduler's turn: what follows from new events is decided, written and sent."""
