"""`python -m asap` is the command line."""

from asap.cli import main

main()
