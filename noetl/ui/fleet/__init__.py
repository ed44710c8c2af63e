"""The pages of many executions at once: what they failed of, and operations that run them again."""
