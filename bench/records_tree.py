"""A decision tree that imitates a network, in the manner of VIPER (Bastani and others, 2018).

In each round the states are gathered in which the tree of the round before arrives, in the first one those of the
network (DAgger), and a new tree is fitted to what the network does in all of them. A state counts by what a wrong action
costs there. VIPER takes max Q - min Q for that. PPO has no Q; of a policy that is softmax(Q / t), it is proportional to
the largest log-probability minus the smallest, which is taken here. Numbers to set are imitated without weights. The tree
is the round's that returns most in episodes of its own.

Runs where stable-baselines3 and scikit-learn are, see records_sb3.py.
"""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium_sb3 import Act, greedy, returns_of
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from stable_baselines3 import PPO

FIRST_SEED = 2_000_000_000  # Of resets in these episodes: neither training nor evaluation has them.
SEEDS_OF_A_RUN = 10_000


def imitated(model: PPO, job: dict[str, Any]) -> tuple[Act, dict[str, Any]]:
    """The best tree; and how large it is, and how many steps were played for it on top of those of the network."""
    asked, name = job["tree"], job["env"]
    teacher, first = greedy(model), FIRST_SEED + SEEDS_OF_A_RUN * job["seed"]
    states: list[np.ndarray] = []
    best, most, student = None, -np.inf, teacher
    for number in range(asked["rounds"]):

        def gathering(x: np.ndarray, student: Act = student) -> np.ndarray:
            states.append(x)
            return student(x)

        seeds = range(first + number * asked["episodes"], first + (number + 1) * asked["episodes"])
        returns = returns_of(gathering, name, seeds)
        if number and (mean := float(returns.mean())) > most:
            best, most = tree, mean
        tree = fitted(model, np.concatenate(states), asked["leaves"], job["seed"])
        student = acting(tree, model)
    tree = tree if best is None else best
    return acting(tree, model), {"nodes": int(tree.tree_.node_count), "further_steps": sum(map(len, states))}


def fitted(model: PPO, states: np.ndarray, leaves: int, seed: int) -> DecisionTreeClassifier | DecisionTreeRegressor:
    wanted = np.concatenate([greedy(model)(part) for part in parts(states)])
    kind = DecisionTreeClassifier if isinstance(model.action_space, spaces.Discrete) else DecisionTreeRegressor
    tree = kind(max_leaf_nodes=leaves, random_state=seed)
    return tree.fit(
        inputs(states, model), wanted, sample_weight=np.concatenate([weights(model, p) for p in parts(states)])
    )


def parts(states: np.ndarray) -> list[np.ndarray]:
    return np.array_split(states, max(1, len(states) // 4096))


def weights(model: PPO, states: np.ndarray) -> np.ndarray:
    """What a wrong action costs; 1 where actions are numbers to set."""
    if not isinstance(model.action_space, spaces.Discrete):
        return np.ones(len(states))
    normalizer = model.get_vec_normalize_env()
    seen = states if normalizer is None else normalizer.normalize_obs(states)
    with torch.no_grad():
        logits = model.policy.get_distribution(model.policy.obs_to_tensor(seen)[0]).distribution.logits
    return (logits.max(1).values - logits.min(1).values).numpy().astype(float) + 1e-6


def acting(tree: DecisionTreeClassifier | DecisionTreeRegressor, model: PPO) -> Act:
    space = model.action_space

    def act(x: np.ndarray) -> np.ndarray:
        said = tree.predict(inputs(x, model))
        if isinstance(space, spaces.Discrete):
            return said.astype(int)
        return np.clip(said.reshape(len(x), *space.shape), space.low, space.high).astype(space.dtype)

    return act


def inputs(states: np.ndarray, model: PPO) -> np.ndarray:
    """As the environment gives them; of a state by its number, one input for each."""
    space = model.observation_space
    return np.eye(int(space.n))[states] if isinstance(space, spaces.Discrete) else states
