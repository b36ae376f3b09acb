"""MountainCar by two hyperplanes: single random pushes never leave the valley, a policy drawn as a whole sometimes
does.

Training starts from the best of some dozens of random policies; the picture shows which skill rules where.

    python examples/mountain_car.py
"""

from asap import ASAP

model = ASAP("MountainCar-v0", hyperplanes=2, seed=0).learn(200_000)
print(model.explain())
print(f"mean return of 100 episodes: {model.evaluate(episodes=100)['return']:.1f} (solved from -110)")
model.plot().savefig("mountain_car.png", dpi=150)
print("mountain_car.png")
