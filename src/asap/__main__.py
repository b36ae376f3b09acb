"""`python -m asap` is the command line."""

from asap.cli.app import main

main()
