"""Every setting of a run, said once, with its sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from asap.config.sequence import SequenceConfig
from asap.config.settings import Removed, setting

LEARNERS = ("reinforce", "actor-critic", "natural", "ppo")  # By gradients.
SEARCH = "ars"
SINGLE = "single"
RUNNERS = ("learner", SINGLE, SEARCH)
OFFLINE_LEARNERS = ("importance", "likelihood")
GRADIENTS = ("sampled", "marginal")
BASES = ("linear", "polynomial", "fourier", "network")
MOST = 2**31 - 1  # Compiled programs count in 32 bits.
SKILLS = ("constant", "linear", "gaussian", "network")


@dataclass(frozen=True)
class PolicyConfig:
    """What the policy can express."""

    hyperplanes: int = setting(
        1, "K: number of hyperplanes, at most policy.most_hyperplanes; there are 2^K skills, K = 0 is one everywhere."
    )
    most_hyperplanes: int = setting(
        10, "The largest K that is taken for meant: 2^10 are 1,024 skills, and each more doubles them.", low=0
    )
    region_skills: tuple[int, ...] = setting(
        (), "Skill of each of the 2^K regions, counted from 0, so that regions may share one; default: one each.", low=0
    )
    alpha_beta: float = setting(20.0, "Sharpness of the hyperplanes (paper: 20 in the rooms).", above=0.0)
    alpha_theta: float = setting(1.0, "Sharpness of the skills (paper: 1 in the rooms).", above=0.0)
    basis: str | None = setting(
        None, "psi under the hyperplanes; default: the task's own.", choices=BASES, removed={"rbf": "no task needed it"}
    )
    inputs: tuple[str, ...] = setting((), "Observations that psi sees, by name; default: the task's own.")
    degree: int = setting(2, "Degree of the polynomial basis.", low=1, high=6)
    frequencies: tuple[tuple[float, ...], ...] = setting((), "Fourier: one frequency vector per feature.")
    bias: bool | None = setting(None, "Fourier: a constant feature; default: none for the task's own psi.")
    task_features: str = setting(
        "auto",
        "How the task descriptor enters psi; auto: interactions when several tasks are trained together.",
        choices=("auto", "none", "additive", "interactions"),
    )
    task_in_skills: bool = setting(False, "Whether linear and network skills see the task descriptor too, as psi does.")
    skills: str = setting(
        "constant",
        "Skills: one distribution over actions each (gaussian: over vectors), or one that is linear or a network in psi's inputs.",
        choices=SKILLS,
    )
    hidden: tuple[int, ...] = setting((16,), "network, as basis or skills: units of each layer.", low=1)
    termination: float | None = setting(
        None, "Commit to a skill; this is the chance per step to choose again inside its region.", low=0.0, high=1.0
    )
    rules: str = setting("", "Rules to start from, as text; they decide K, features and skills. As by --rules FILE.")
    keep: str | None = setting(
        None, "What learning leaves as it is: all skills, or the partition.", choices=("skills", "partition")
    )
    start: str = setting(
        "misspecified",
        "First plane at the start: the task's wrong one, its approximately optimal one, or random.",
        choices=("misspecified", "approximate", "random"),
    )

    @property
    def num_skills(self) -> int:
        return 1 + max(self.region_skills) if self.region_skills else 2**self.hyperplanes


@dataclass(frozen=True)
class LearnConfig:
    """How it learns."""

    learner: str | None = setting(
        None,
        "Update rule; default: ppo. ars: paired random search. From logged data: importance weights or likelihood; default: what the data allow.",
        choices=(*LEARNERS, SEARCH, *OFFLINE_LEARNERS),
    )
    gradient: str = setting("marginal", "Score: of the sampled skill, or with the skill summed out.", choices=GRADIENTS)
    step_size_theta: float | None = setting(None, "Step size of the skills; default: the learner's own.", low=0.0)
    step_size_beta: float | None = setting(None, "Step size of the hyperplanes; default: the learner's own.", low=0.0)
    schedule: str | None = setting(
        None,
        "Step sizes: constant; eta / (1 + n / scale)^power at update n; or linear: they fall to a tenth over the "
        "budget. Default: the learner's own.",
        choices=("constant", "robbins-monro", "linear"),
    )
    schedule_scale: float = setting(100.0, "Robbins-Monro: updates until the step sizes begin to fall.", above=0.0)
    schedule_power: float = setting(0.7, "Robbins-Monro: above 0.5 and up to 1.", above=0.5, high=1.0)
    optimizer: str | None = setting(
        None, "Adam, or plain gradient ascent; default: the learner's own.", choices=("adam", "sgd")
    )
    lanes: int | None = setting(None, "Episodes played at the same time; default: the learner's own.", low=1, high=MOST)
    window: int = setting(
        64,
        "Steps per lane and update (all learners but reinforce); logged data: at least the longest episode.",
        low=1,
        high=MOST,
    )
    batch_steps: int = setting(
        512, "Gymnasium environments: steps per update, at least; episodes are played to their end.", low=1, high=MOST
    )
    round_episodes: int | None = setting(
        None,
        "Gymnasium environments: episodes are added to a batch in rounds of so many, played side by side; default: one "
        "for each 256 steps of learn.batch_steps, at least 2.",
        low=1,
        high=MOST,
    )
    batch_episodes: int = setting(
        32,
        "Complete episodes per update (reinforce), at least, played side by side; Algorithm 1: learn.lanes at a time.",
        low=2,
        high=MOST,
    )
    baseline: str = setting(
        "running",
        "reinforce, what counts: running: reward to go minus that of the other episodes still running; mean: whole "
        "return minus that of the others; none: whole return (Algorithm 1). Only running adds entropy and softening.",
        choices=("running", "mean", "none"),
    )
    epochs: int = setting(8, "Passes over each batch (ppo).", low=1, high=MOST)
    minibatch: int | None = setting(
        None,
        "Each pass takes the steps in a random order, so many at a time (ppo); default: the whole batch at once.",
        low=1,
        high=MOST,
    )
    kl_stop: float | None = setting(
        None,
        "The passes end when the policy is so far (KL, nats) from the one that played (ppo); falls with a linear "
        "schedule. Default: never.",
        above=0.0,
    )
    clip: float = setting(0.2, "Probability ratios beyond 1 +- clip get no gradient (ppo).", above=0.0)
    damping: float = setting(0.1, "Added to the diagonal of the Fisher matrix (natural).", above=0.0)
    discount: float | None = setting(None, "gamma; default: the task's own.", low=0.0, high=1.0)
    horizon_discount: bool = setting(
        False, "Without learn.discount: gamma is 1 - 1 / (time limit), so that all of an episode counts."
    )
    trace: float = setting(0.95, "lambda of the advantages: 0 trusts the critic, 1 the returns.", low=0.0, high=1.0)
    advantage_scale: float | None = setting(
        None, "Factor on the advantages; default: divided by their deviation in each batch.", above=0.0
    )
    deviations: str = setting(
        "learned",
        "Of Gaussian skills: learned, or fixed at the start's, e^-0.5 of half the range or what rules say.",
        choices=("learned", "fixed"),
    )
    sharpening: float = setting(
        1.0,
        "Planes and logits of skills become sharper in the second half of the budget, by up to this factor at its end; "
        "what is kept does not.",
        low=1.0,
        high=100.0,
    )
    entropy: float | None = setting(
        None,
        "Weight of the entropy of the actions; with a linear schedule it falls to 0 over the budget. Default: the learner's own.",
        low=0.0,
    )
    softening: float = setting(0.03, "Weight of the penalty that revives a plane which has lost one side.", low=0.0)
    softening_floor: float = setting(0.1, "Share of the steps below which a side counts as lost.", above=0.0, high=0.5)
    critic_features: int = setting(32, "Random ramps of the critic.", low=1, high=4096)
    critic_table: bool = setting(
        False,
        "Where observations are states by their number, at most 1024: the critic has one feature for each of them.",
    )
    critic_length: float = setting(
        0.5, "Length scale of the critic, where the observation range is 2.", low=1e-6, high=1e6
    )
    critic_time: bool = setting(
        False,
        "The critic sees how much of the time limit is used up; what comes after the limit is then worth nothing.",
    )
    critic_memory: float = setting(0.8, "Weight of the former batches in the critic's fit.", low=0.0, below=1.0)
    averaging: float | None = setting(
        None,
        "Result: the mean of the parameters after all updates, update n weighted by n^this; default: the last ones.",
        low=0.0,
    )
    directions: int = setting(
        8, "Search (ars, finish): directions per update; the policy is tried on both sides of each.", low=1, high=MOST
    )
    perturbation: float = setting(
        0.1,
        "Search: length of a trial, in units of the size of the weights; of weights that are 0, as it is.",
        above=0.0,
    )
    search_step: float = setting(
        0.1, "Search: length of a step, in the same units; it falls to a fifth over the budget.", above=0.0
    )
    convergence_window: int = setting(
        20, "Updates over which parameters are averaged by the convergence test.", low=1, high=MOST
    )
    convergence_tolerance: float = setting(
        0.01, "Converged when the average moves by less than this share of its norm; 0 never stops.", low=0.0
    )

    def discount_on(self, own: float, horizon: int) -> float:
        """gamma on a task with that discount of its own and that time limit."""
        if self.discount is not None:
            return self.discount
        return 1 - 1 / horizon if self.horizon_discount else own


@dataclass(frozen=True)
class RunConfig:
    """What is run, for how long, and what is recorded."""

    tasks: tuple[str, ...] = setting((), "Names of the tasks.")
    weights: tuple[float, ...] = setting((), "mu: weight of each task; default: equal.", above=0.0)
    seed: int = setting(0, "First seed.", low=0, high=2**63 - 1)
    seeds: int = setting(1, "Number of seeds, trained side by side.", low=1, high=10_000)
    episodes: int | None = setting(
        None,
        "Budget of each seed in completed episodes, played or read; default: 2000, or none where run.steps is given; "
        "of logged data at least all.",
        low=1,
    )
    steps: int | None = setting(None, "Budget of each seed in steps of the environment; default: none.", low=1)
    chunk: int = setting(
        5, "Updates between two looks of the host: evaluation, logging, checkpoints, signals.", low=1, high=MOST
    )
    eval_episodes: int = setting(64, "Episodes of each evaluation during training, per task.", low=1, high=10_000_000)
    final_episodes: int = setting(1000, "Episodes of the evaluation at the end, per task.", low=1, high=10_000_000)
    deterministic: bool = setting(False, "In the evaluation at the end, take the most probable skill and action.")
    race: tuple[str, ...] = setting(
        (),
        "Runners that race: learner (of learn.learner), single (the same with one skill everywhere), or ars from 0; the best goes on.",
        choices=RUNNERS,
    )
    heat: float = setting(0.05, "Share of the budget that a runner of a race gets at a time.", above=0.0, high=0.2)
    finish: float = setting(
        0.0, "Share of the budget for a search by ars at the end, from what was learned; 0: none.", low=0.0, high=0.9
    )
    pick: float = setting(
        0.0,
        "Share of the budget to compare the policy before the finish, the last one and the mean; 0: the last one.",
        low=0.0,
        high=0.1,
    )
    candidates: int = setting(
        0, "Gymnasium environments: policies drawn to start from the best of them; 0 starts from one.", low=0, high=MOST
    )
    search_if_stuck: bool = setting(
        False,
        "Search for a start only where the first episodes all have the same return, or all last to the time limit.",
    )
    search_share: float = setting(
        0.2, "Share of the steps after which the search for a start gives up.", above=0.0, high=1.0
    )
    try_images: bool = setting(
        True, "Given rules: try a few episodes the other way round, too, and start from that if all of them do better."
    )
    source: str | None = setting(None, "Run or saved model to start from, seed by seed; as by `asap transfer`.")
    search_episodes: int = setting(
        0,
        "Warm start: episodes per task to try each sign pattern of the hyperplanes with; 0 tries none.",
        low=0,
        high=MOST,
    )
    symmetries: str = setting(
        "planes",
        "What that search tries: signs of the hyperplanes, or all images with other skills, observations and actions.",
        choices=("planes", "all"),
    )


@dataclass(frozen=True)
class OfflineConfig:
    """Learning from logged data."""

    data: str | None = setting(None, "Dataset to learn from instead of playing; as by --offline.")
    fingerprint: str | None = setting(None, "Of the dataset, filled in: a resumed run must find the same.")
    drop_bad_rows: bool = setting(
        False, "Leave out episodes with values that can't be used, instead of refusing the file."
    )
    cap: float = setting(
        10.0, "importance: a step's weight, the product of the ratios up to it, is clipped to this.", low=1.0
    )
    anchor: float = setting(
        0.05, "importance: weight of the likelihood of the logged actions, which keeps ratios near 1.", low=0.0
    )
    weights: str | None = setting(
        None,
        "likelihood: steps count by their advantages, or by the returns of their episodes; default: what the data say.",
        choices=("advantages", "returns"),
    )
    sharpness: float | None = setting(
        None,
        "likelihood: how much what was better counts for more; 0: all the same. Default: what the data say.",
        low=0.0,
    )


@dataclass(frozen=True)
class EnvConfig:
    """A Gymnasium environment, and what it is held to."""

    options: str | None = setting(None, "Keyword arguments of the environment, as a JSON object.")
    max_steps: int | None = setting(
        None, "Episodes are cut after so many steps; default: the environment's own limit, or 1000.", low=1, high=MOST
    )
    strict_obs: bool = setting(False, "Observations outside of their space: an error, and not only a note.")
    reward_scale: float = setting(1.0, "Factor on the rewards, and so on all returns that are shown.", above=0.0)
    allow_one_step: bool = setting(False, "Accept that nearly all episodes end at their first step.")
    check_determinism: bool = setting(
        False, "Before training, see whether seed and actions decide an episode; during it, whether that changes."
    )
    step_timeout: float = setting(
        30.0, "Seconds without a step after which a worker is restarted.", above=0.0, high=1e6
    )
    retries: int = setting(
        5,
        "How often an episode is tried again that makes its worker die or hang, or whose reset raises.",
        low=0,
        high=1000,
    )
    vector: bool = setting(
        True, "Step episodes side by side where Gymnasium has a vector form of the environment with the same bits."
    )
    on_no_workers: str = setting("wait", "When no worker is left alive: wait, or fail.", choices=("wait", "fail"))


@dataclass(frozen=True)
class Config:
    REMOVED: ClassVar[Mapping[str, Removed]] = {
        "run.precision": Removed("float32", "every program uses float32"),
        "policy.centres": Removed(4, "the basis rbf is gone"),
        "learn.episodes_per_chunk": Removed(1, "a worker is given one episode at a time"),
        "env.env_retries": Removed(2, "env.retries also counts how often a reset that raises is tried again"),
    }

    run: RunConfig = field(default_factory=RunConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    sequence: SequenceConfig = field(default_factory=SequenceConfig)
    offline: OfflineConfig = field(default_factory=OfflineConfig)
    env: EnvConfig = field(default_factory=EnvConfig)

    @property
    def searches(self) -> bool:
        """Whether paired random search has a part in the training."""
        return self.learn.learner == SEARCH or self.run.finish > 0 or SEARCH in self.run.race
