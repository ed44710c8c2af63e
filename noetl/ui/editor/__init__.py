"""The editor of playbooks: what is wrong with a text, what it would run, and what may be typed."""
