"""The HTTP client of tools: checked addresses, deadlines, answers, and who asks."""
