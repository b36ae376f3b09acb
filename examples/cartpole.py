"""CartPole by one hyperplane and two constant skills: a rule of one line keeps the pole up.

python examples/cartpole.py
"""

from asap import ASAP

model = ASAP("CartPole-v1", hyperplanes=1, skills="constant", seed=0).learn(150_000)
print(model.explain())
print(f"mean return of 100 episodes: {model.evaluate(episodes=100)['return']:.1f} (solved from 475)")
