"""`python -m harness`, for where the command is not on the path."""

from harness.cli.app import main

main()
