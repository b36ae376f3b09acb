"""What records.py measures: a row for each environment by the library's defaults, rows with settings of their own, and
what others have published.

A threshold is the one of Gymnasium's registry. Where there is none, the usual one is taken: -100 on Acrobot, -200 on
Pendulum, and on CliffWalking -13, the best that is possible.
"""

from typing import NamedTuple

FIRST_FRESH_SEED = 1000  # Settings are chosen on seeds below it.
CLASSIC, LANDERS, TABLES, MUJOCO = "Classic control", "Landers (Box2D)", "Numbered states", "MuJoCo"
# What is known about how the defaults came about, a sentence each: the page prints them.
DEFAULTS_TUNED: tuple[str, ...] = (
    "The defaults were chosen on seeds 0 to 22, a few seeds for each setting, and fixed in a commit before any fresh seed was run.",
    "K of 0, 1 and 2 was tried, with batches of 512, 1,024 and 2,048 steps.",
    "So were entropies from 0 to 0.1, steps of 0.01 and 0.02, and two designs of the race.",
)


class Environment(NamedTuple):
    kind: str
    steps: int
    threshold: float
    seeds: int = 10
    starts: int = 1000  # Of which the share is given that ends below the threshold.
    episodes: int = 100  # Of mean returns.
    rules: str = ""  # The file in examples/rules, without .txt.


ENVIRONMENTS = {
    "CartPole-v1": Environment(CLASSIC, 100_000, 475, starts=10_000, rules="cartpole"),
    "Acrobot-v1": Environment(CLASSIC, 150_000, -100, rules="acrobot"),
    "MountainCar-v0": Environment(CLASSIC, 500_000, -110, rules="mountain_car"),
    "Pendulum-v1": Environment(CLASSIC, 300_000, -200, rules="pendulum"),
    "MountainCarContinuous-v0": Environment(CLASSIC, 50_000, 90, rules="mountain_car_continuous"),
    "LunarLander-v3": Environment(LANDERS, 1_000_000, 200, starts=100, rules="lunar_lander"),
    # LunarLander-v3 with its option `continuous`.
    "LunarLanderContinuous-v3": Environment(LANDERS, 1_000_000, 200, starts=100, rules="lunar_lander_continuous"),
    "FrozenLake-v1": Environment(TABLES, 300_000, 0.7, starts=2000, episodes=2000, rules="frozen_lake"),
    "CliffWalking-v1": Environment(TABLES, 300_000, -13, rules="cliff_walking"),
    "Taxi-v4": Environment(TABLES, 1_000_000, 8, rules="taxi"),
    "InvertedPendulum-v5": Environment(MUJOCO, 300_000, 950, seeds=5, starts=100, rules="inverted_pendulum"),
    "Swimmer-v5": Environment(MUJOCO, 2_000_000, 360, seeds=5, starts=100, rules="swimmer"),
    "Hopper-v5": Environment(MUJOCO, 3_000_000, 3800, seeds=5, starts=100, rules="hopper"),
    "HalfCheetah-v5": Environment(MUJOCO, 3_000_000, 4800, seeds=5, starts=100, rules="half_cheetah"),
}


class Row(NamedTuple):
    """One setting of `asap train ENV --steps N`."""

    env: str
    flags: tuple[str, ...] = ()  # Further words of the command.
    tried: tuple[str, ...] = ()  # Every setting that was tried on tuning seeds before these flags, themselves included.
    is_best: bool = False  # Has flags of its own; while there are none, it is not run.

    @property
    def about(self) -> Environment:
        return ENVIRONMENTS[self.env]

    def command(self, steps: int) -> list[str]:
        return ["train", self.env, "--steps", str(steps), *self.flags]


# The best readable policy: settings of its own for an environment. A row without flags is not run.
BEST = {
    "LunarLander-v3:best": Row("LunarLander-v3", (), (), True),
    "LunarLanderContinuous-v3:best": Row("LunarLanderContinuous-v3", (), (), True),
    "Acrobot-v1:best": Row("Acrobot-v1", (), (), True),
    "MountainCarContinuous-v0:best": Row("MountainCarContinuous-v0", (), (), True),
    "Swimmer-v5:best": Row("Swimmer-v5", (), (), True),
}
ROWS = {name: Row(name) for name in ENVIRONMENTS} | BEST


class Published(NamedTuple):
    """A figure as its authors give it; it was not measured here."""

    value: float
    size: str
    who: str
    steps: str = ""


PUBLISHED = {
    "CartPole-v1": (
        Published(500, "39 nodes", "SYMPOL, ICLR 2025", "1,000,000"),
        Published(499.9, "6.4 nodes", "MENS-DT-RL"),
    ),
    "Acrobot-v1": (
        Published(-75, "depth-8 tree", "VIPER, in SYMPOL's Table 8"),
        Published(-80, "79 nodes", "SYMPOL, ICLR 2025"),
    ),
    "MountainCar-v0": (
        Published(-100.9, "7 nodes", "MENS-DT-RL, its best tree"),
        Published(-106.7, "", "MENS-DT-RL, mean"),
    ),
    "Pendulum-v1": (Published(-323, "56 nodes", "SYMPOL, ICLR 2025"),),
    "MountainCarContinuous-v0": (
        Published(97, "61 nodes", "tree distilled from SAC"),
        Published(94, "23 nodes", "SYMPOL, ICLR 2025"),
    ),
    "LunarLander-v3": (
        Published(272, "oblique tree", "Custode and Iacca"),
        Published(223.5, "50 nodes", "MENS-DT-RL"),
        Published(-57, "", "SYMPOL, ICLR 2025", "1,000,000"),
    ),
    "LunarLanderContinuous-v3": (
        Published(300.5, "165 parameters", "ICCT", "500,000"),
        Published(298.2, "50 parameters", "warm-started differentiable tree, 2026"),
        Published(258, "101 parameters", "ICCT", "500,000"),
    ),
    "InvertedPendulum-v5": (Published(1000, "12 parameters", "linear policy"),),
    "Swimmer-v5": (Published(355, "16 numbers", "ARS linear, rl-baselines3-zoo", "2,000,000"),),
    "Hopper-v5": (Published(3344, "33 numbers", "ARS linear, rl-baselines3-zoo", "7,000,000"),),
    "HalfCheetah-v5": (Published(4815, "102 numbers", "ARS linear, rl-baselines3-zoo", "12,000,000"),),
}
