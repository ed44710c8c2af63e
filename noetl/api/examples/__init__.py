"""One example for each body and each answer of the API, as the OpenAPI document shows them.

Each is kept by its route: what may be sent (by media type), and what is answered when it went well.
Tests hold all of them against the schemas, and send what may be sent. The package imports no route.
"""
