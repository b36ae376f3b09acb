"""The paper's results and ours beyond it, each an experiment composed from the library.

An experiment is a function `(laboratory) -> Finding`. `experiments.py` lists them all; `asap reproduce` runs them.
"""
