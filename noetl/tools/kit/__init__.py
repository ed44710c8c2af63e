"""What tools are made of: their base class, the registry, files, secrets, large results, HTTP."""
