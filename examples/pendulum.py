"""Pendulum by four linear skills: torques linear in the state, one rule for each region.

Episodes are played by two processes. The result is the same for any number of them.

    python examples/pendulum.py
"""

from asap import ASAP

model = ASAP("Pendulum-v1", hyperplanes=2, skills="linear", seed=1, workers=2).learn(150_000)
print(model.explain())
model.save("pendulum.asap")
print(
    f"mean return of 100 episodes: {ASAP.load('pendulum.asap').evaluate(episodes=100)['return']:.1f} (a good policy: -200)"
)
