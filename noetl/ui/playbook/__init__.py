"""The page of one playbook, its tabs and its start form, and the list of all playbooks."""
