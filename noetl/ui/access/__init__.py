"""The page of who may do what: credentials, tokens, and the audit."""
