"""Playbooks on trial: runs tests of playbooks, with stand-ins in the place of calls. May import
everything below the entries."""
