"""The command line."""

from asap.cli.app import main

__all__ = ["main"]
