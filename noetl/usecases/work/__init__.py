"""Workers: claim a command, run its pipeline or its share of a loop, and report."""
