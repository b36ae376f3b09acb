"""A better policy from the log of a half-trained one, without playing.

The first policy stops when it balances the pole for 150 steps. It writes 40,000 steps to a file. From this file alone another
policy learns. Only then is it played.

    python examples/learn_from_a_log.py
"""

from asap import ASAP
from asap.envs.resolve import resolve
from asap.experience.collect import collect
from asap.model.behaviour import behaviour_of

half = ASAP("CartPole-v1", seed=1).learn(100_000, callback=lambda report: bool(report.returns.mean() < 150))
half.save("half.asap")

# The same as: asap collect CartPole-v1 --policy half.asap --steps 40000 --out log.npz
task, behaviour = behaviour_of("half.asap", resolve("CartPole-v1"))
logged = collect(task, behaviour, 0.0, 1_000_000, 0, "log.npz", num_steps=40_000)
print(f"the log: mean return {logged.meta.behaviour_return:.1f} of {logged.meta.episodes} episodes")

# The same as: asap train --offline log.npz
model = ASAP("CartPole-v1", settings={"offline.data": "log.npz"}).learn()
print(model.explain())
print(f"mean return of 100 episodes: {model.evaluate(episodes=100)['return']:.1f} (solved: 475)")
