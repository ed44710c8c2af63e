"""`python -m noetl` is the `noetl` command."""

from noetl.cli.main import main

main()
