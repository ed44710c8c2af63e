"""The classic dialect to the canonical one."""
