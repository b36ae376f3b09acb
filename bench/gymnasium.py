"""ASAP beside PPO of stable-baselines3 on Gymnasium's classic control: `python bench/gymnasium.py`, see
gymnasium_table.py.

Other scripts of this folder that import gymnasium find this file first, because it has the name; they are given the
true one.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    from gymnasium_table import main

    main()
else:
    here = Path(__file__).parent.resolve()
    before = sys.path[:]
    sys.path[:] = [folder for folder in before if Path(folder or ".").resolve() != here]
    del sys.modules[__name__]
    importlib.import_module(__name__)
    sys.path[:] = before
