"""`python -m noetl.cli` is the `noetl` command."""

from noetl.cli.main import main

main()
