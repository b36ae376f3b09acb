"""Acrobot by one hyperplane: swing up by pushing with the movement.

python examples/acrobot.py
"""

from asap import ASAP

model = ASAP("Acrobot-v1", hyperplanes=1, seed=0).learn(60_000)
print(model.explain())
print(f"mean return of 100 episodes: {model.evaluate(episodes=100)['return']:.1f} (solved from -100)")
