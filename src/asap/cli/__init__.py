"""The command line. Each module adds its commands to the app; `asap --help` lists them in this order."""

# isort: off
from asap.cli import learning, transferring, reading, surgery, environments  # noqa: F401 - They add commands.
from asap.cli import collecting, listing, distilling, reproducing, comparing, installation  # noqa: F401
from asap.cli.app import main

__all__ = ["main"]
