"""From four hyperplanes to the smallest policy that is as good, without learning; and a plane more that changes
nothing."""

import itertools
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from asap.base.arrays import stack
from asap.base.keys import host_generator
from asap.base.spec import Reference, Task
from asap.base.stats import bootstrap_interval, iqm
from asap.experience.protocol import Evaluation
from asap.paper.claims import Claim, Finding, Picture, median_interval
from asap.paper.laboratory import Laboratory, TrainedRun, play
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import drop_plane, grow, merge_sides, merge_skills, unshared
from asap.show.figures.policy_map import partition_gallery

MOST_PLANES = 4
ALLOWED = 0.01  # Loss of return, as a share of the way from the misspecified start to the approximately optimal.
# All candidates of a seed meet the same starts and noise; those that are left are confirmed in other episodes.
PRUNING, CONFIRMING = range(400), range(400, 1200)
_PLANE = 11  # Stream of the seed's generator; training uses smaller ones.
SHOWN = 5  # Seeds in the picture.


def run(laboratory: Laboratory) -> Finding:
    record = laboratory.train("two-rooms-k4", ["two-rooms"], {"policy.hyperplanes": MOST_PLANES})
    seeds = range(laboratory.seed, laboratory.seed + laboratory.seeds)
    reference = record.tasks[0].reference
    gap = reference.approx_optimal - reference.misspecified
    evaluator = Evaluator(record.tasks[0], laboratory.seed)
    before = [record.policy(index) for index in range(len(seeds))]
    after = prune(before, evaluator, evaluator.returns(before) - ALLOWED * gap)
    smallest = prune(after, evaluator, np.full(len(seeds), reference.near_optimal))
    size_of_plane = before[0].partition.beta.shape[-1]
    planes = [host_generator(seed, _PLANE).standard_normal(size_of_plane, np.float32) for seed in seeds]
    grown = [grow(policy, plane) for policy, plane in zip(after, planes)]
    stages = [(policies, evaluator.returns(policies, CONFIRMING)) for policies in (before, after, smallest)]
    returns = [of_stage for _, of_stage in stages]
    claims = [*sizes(after, smallest, returns, reference), loss(*returns[:2], gap), unchanged(after, grown)]
    return Finding(claims, {"prune-and-grow": gallery(record, stages, seeds)})


class Evaluator(NamedTuple):
    """Plays a policy per seed, with up to four planes, all in one program: missing planes are grown, which changes
    nothing."""

    task: Task
    seed: int

    def play(self, policies: list[ASAPPolicy], episodes: range = PRUNING) -> Evaluation:
        """Arrays have seeds first."""
        stacked = stack([with_planes(unshared(policy), MOST_PLANES) for policy in policies])
        return play(stacked, self.task, len(episodes), self.seed, episodes.start)

    def returns(self, policies: list[ASAPPolicy], episodes: range = PRUNING) -> Float[np.ndarray, "seeds"]:
        """Mean return of each policy."""
        return self.play(policies, episodes).returns.mean((1, 2))


def with_planes(policy: ASAPPolicy, count: int) -> ASAPPolicy:
    while policy.partition.num_planes < count:
        policy = grow(policy, np.zeros_like(policy.partition.beta[0]))
    return policy


def prune(policies: list[ASAPPolicy], evaluator: Evaluator, floor: Float[np.ndarray, "seeds"]) -> list[ASAPPolicy]:
    """Greedily, while the return stays above the floor: planes are removed, then skills are merged."""
    for simplify in (without_a_plane, with_two_skills_merged):
        going_on = np.ones(len(policies), bool)
        while going_on.any():
            usage = usage_of(policies, evaluator.play(policies))
            offers = [simplify(*each) if go else [] for *each, go in zip(policies, usage, going_on)]
            policies, going_on = accept(policies, offers, evaluator, floor)
    return policies


def accept(
    policies: list[ASAPPolicy], offers: list[list[ASAPPolicy]], evaluator: Evaluator, floor: Float[np.ndarray, "seeds"]
) -> tuple[list[ASAPPolicy], np.ndarray]:
    """The best offer of each seed, where it reaches the floor; and where it does."""
    chosen, best = list(policies), np.full(len(policies), -np.inf)
    for c in range(max(map(len, offers))):
        tried = [offer[c] if c < len(offer) else policy for offer, policy in zip(offers, policies)]
        returns = evaluator.returns(tried)
        for s in np.flatnonzero((returns >= floor) & (returns > best) & [c < len(offer) for offer in offers]):
            chosen[s], best[s] = tried[s], returns[s]
    return chosen, np.isfinite(best)


def usage_of(policies: list[ASAPPolicy], played: Evaluation) -> list[np.ndarray]:
    """Share of the steps under each skill. Grown planes come last: region r was played as r, r + R, r + 2 R and so
    on."""

    def usage(policy: ASAPPolicy, counts: np.ndarray) -> np.ndarray:
        steps = counts.reshape(-1, policy.partition.num_regions).sum(0)
        return np.float32(np.bincount(policy.partition.skill_of_region, steps) / steps.sum())

    return [usage(policy, counts) for policy, counts in zip(policies, played.skill_steps)]


@jax.jit
def without_a_plane(policy: ASAPPolicy, usage: Float[Array, "S"]) -> list[ASAPPolicy]:
    """Every way to remove one: keep the skills of one side, of the other, or their mixtures."""
    planes = policy.partition.num_planes if policy.partition.num_planes > 1 else 0  # The last one stays.
    smaller = [
        (drop_plane(policy, k, 0), drop_plane(policy, k, 1), merge_sides(policy, k, usage)) for k in range(planes)
    ]
    return list(itertools.chain(*smaller))


def with_two_skills_merged(policy: ASAPPolicy, usage: Float[np.ndarray, "S"]) -> list[ASAPPolicy]:
    """The pair whose mixture loses the least information about the actions, weighted by usage."""
    sigma = np.exp(np.asarray(policy.skills.log_probs(np.ones(1)), float))

    def information_lost(skills: tuple[int, int]) -> float:
        weights, pair = usage[list(skills)] + 1e-9, sigma[list(skills)]
        return float((weights[:, None] * pair * np.log(pair / (weights @ pair / weights.sum()))).sum())

    pairs = itertools.combinations(range(policy.num_skills), 2)
    return [merge_skills(policy, min(pairs, key=information_lost), usage)] if policy.num_skills > 1 else []


def sizes(
    after: list[ASAPPolicy], smallest: list[ASAPPolicy], returns: list[np.ndarray], reference: Reference
) -> list[Claim]:
    why = (
        f"what four planes learn is worth more than two skills can do. They reach a return of {iqm(returns[0]):.1f} (IQM), where one plane at "
        f"the wall with learned skills has {reference.approx_optimal:.1f}. Going up, right and down are apart then"
    )
    near = f"asked when the answer for {ALLOWED:.0%} was known. At or above {reference.near_optimal:.1f} in the episodes of the pruning, {iqm(returns[2]):.1f} (IQM) in new ones"
    within, impact = f"within {ALLOWED:.0%} of what they reach", "more hyperplanes have no impact on the reward"
    planes, fewest = ([policy.partition.num_planes for policy in policies] for policies in (after, smallest))
    skills, fewest_skills = ([policy.num_skills for policy in policies] for policies in (after, smallest))
    two = "two skills dominate"
    return [
        size(f"4 hyperplanes can be pruned to 2, {within}", impact, planes, 2, why),
        size(f"16 skills can be merged to 2, {within}", two, skills, 2, why),
        size("1 hyperplane is left, where near-optimal is enough", impact, fewest, 1, near),
        size("2 skills are left, where near-optimal is enough", two, fewest_skills, 2, near),
    ]


def size(claim: str, paper: str, counts: list[int], most: int, note: str) -> Claim:
    """Holds if the median over seeds is small enough."""
    median, spread = np.median(counts), ", ".join(f"{n} in {counts.count(n)}" for n in sorted(set(counts)))
    ours = f"{median:g} in the median ({spread} seeds)"
    return Claim(claim, paper, ours, median_interval(counts), bool(median <= most), note)


def loss(before: np.ndarray, after: np.ndarray, gap: float) -> Claim:
    lost = 100 * (before - after) / gap
    return Claim(
        claim=f"the pruned policies lose at most {ALLOWED:.0%} in {len(CONFIRMING)} new episodes",
        paper="not in the paper",
        ours=f"{np.mean(lost):.2f} % in the mean, at worst {lost.max():.2f} %: return {before.mean():.1f} before, {after.mean():.1f} after",
        ci=bootstrap_interval(lost, statistic=np.mean),
        passed=bool(np.mean(lost) <= 100 * ALLOWED),
        note="loss as a share of the way from the misspecified start to the approximately optimal partition",
    )


def unchanged(policies: list[ASAPPolicy], grown: list[ASAPPolicy]) -> Claim:
    """Compared where the agent can be: the way to act depends on x and y."""
    x, y = np.meshgrid(*2 * [np.linspace(0, 1, 41, dtype=np.float32)])
    at = np.stack([x.ravel(), y.ravel(), *2 * [np.zeros(x.size, np.float32)]])
    act = jax.jit(lambda policy: jax.numpy.exp(policy.action_log_probs(at, np.zeros((2, x.size), np.float32))))
    largest = max(float(np.abs(act(a) - act(b)).max()) for a, b in zip(policies, grown))
    return Claim(
        claim="a random plane more, with the same skills on both sides, leaves every action's probability as it was",
        paper="not in the paper",
        ours=f"{largest:.0e} is the largest difference on a grid of {x.size:,} states",
        ci=None,
        passed=largest < 1e-5,
    )


def gallery(record: TrainedRun, stages: list[tuple[list[ASAPPolicy], np.ndarray]], seeds: range) -> Picture:
    shown = range(min(SHOWN, len(seeds)))
    policies, returns = ([each[s] for each in of_stages for s in shown] for of_stages in zip(*stages))
    titles = [
        f"K = {policy.partition.num_planes}, {policy.num_skills} skills: {value:.1f}"
        for policy, value in zip(policies, returns)
    ]
    title = (
        f"two-rooms, seeds {seeds[0]} to {seeds[len(shown) - 1]}: as learned, pruned, and pruned as far as near-optimal"
    )
    caption = (
        f"One column per seed, over each map its return. Second row: the return falls by at most {ALLOWED:.0%}; last row: it "
        "stays near-optimal. Skills that were merged into one have one colour."
    )
    tasks = [record.tasks[0]] * len(policies)
    return Picture(partition_gallery(policies, tasks, titles, title, len(shown)), caption)
