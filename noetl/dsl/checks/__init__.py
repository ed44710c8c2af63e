"""Findings about a playbook that can be compiled: names, code, templates, flow, secrets."""
