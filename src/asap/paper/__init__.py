"""The paper's results and ours beyond it: one file per figure, each an experiment composed from the library.

An experiment is a function `run(laboratory) -> Finding`. `experiments.py` lists them all; `asap reproduce` runs them.
"""
