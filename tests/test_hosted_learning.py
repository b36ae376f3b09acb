"""Learning on foreign environments: it learns, the same bits for any number of workers and after any stop, and it says
what is odd."""

import json
import os
import sys

import gymnasium
import numpy as np
import pytest
from own_envs import Tanks, Walk

from asap import ASAP
from asap.base.arrays import known_mean, stack
from asap.base.episodes import EVALUATION, EpisodeId, Played
from asap.base.errors import RunError, UserError
from asap.base.spec import TaskSet
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings, to_toml
from asap.experience.choose import choose
from asap.experience.hosted import evaluation_of
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, OnProgress, ignore_progress
from asap.learn.search import MARGIN, draw, search
from asap.learn.state import parameter_digest
from asap.model.result import Result
from asap.model.training import train_run
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import Run
from asap.runs.loggers import loggers, metrics_of
from asap.runs.signals import StopRequest

SHORT = ["run.candidates=16", "run.final_episodes=5"]
ROOMS = ["learn.averaging=3", "run.chunk=2", "run.final_episodes=64"]


class Aim(gymnasium.Env):
    """One number is shown, and twice that number is the right action; the bounds are 10 times as large."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Box(-20, 20, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._next(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        reward = -float((action[0] / 10 - 2 * self.shown[0]) ** 2)
        return self._next(), reward, False, self.time == 20, {}

    def _next(self):
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.shown


class Same(Walk):
    """All rewards are equal."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, 1.0, *rest


class Instant(Walk):
    """Every episode ends at its first step."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, True, truncated, info


Composed = tuple[Config, TaskSet]


def cart_pole(steps: int = 3000, *settings: str) -> Composed:
    return compose(["CartPole-v1"], {"run.steps": steps}, overrides=parse_settings(Config, [*SHORT, *settings]))


def trained(composed: Composed, path, workers: str = "0", callbacks=()) -> Result:
    run = Run.create_or_continue(path, to_toml(composed[0]))
    return train_run(run, *composed, StopRequest(), callbacks, workers)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of the run that others are held against."""
    return tmp_path_factory.mktemp("alone") / "run"


@pytest.fixture(scope="module")
def alone(folder):
    return trained(cart_pole(), folder)


def test_workers_make_no_difference(alone, tmp_path):
    assert trained(cart_pole(), tmp_path / "run", workers="2").parameters_sha256 == alone.parameters_sha256


def test_a_stopped_run_goes_on_to_the_same_bits(alone, tmp_path):
    stopped = trained(cart_pole(), tmp_path / "run", callbacks=[lambda report: report.update < 2])
    assert not stopped.finished and stopped.parameters_sha256 != alone.parameters_sha256
    assert trained(cart_pole(), tmp_path / "run").parameters_sha256 == alone.parameters_sha256


def test_seeds_side_by_side_are_the_seeds_alone(alone, folder, tmp_path):
    trained(cart_pole(3000, "run.seeds=2"), tmp_path / "run")
    one, both = (ASAP.load(path).policies.partition.beta for path in (folder, tmp_path / "run"))
    np.testing.assert_array_equal(both[0], one[0])
    assert not np.array_equal(both[0], both[1])


def test_all_steps_count(alone):
    """The search for a start included; a run ends with the update in which the budget is used up."""
    assert 3000 <= alone.env_steps < 3000 + 2 * 512 + 500
    assert alone.curve.episodes[0, 0] > 16  # What the search has played.


def test_the_outcome_is_the_mean_of_the_policies_on_the_way(tmp_path, monkeypatch):
    """Whatever was learned about scaling in between: a plane's height over a state is the mean of its heights."""
    monkeypatch.setattr("asap.learn.loop.SAVE_EVERY_SECONDS", -1.0)
    x, heights = np.float32([0.3, -1.0, 0.1, 2.0]), []

    def height(beta: str) -> float:
        """Of the newest checkpoint's first plane."""
        saved = Run.open(tmp_path / "run").latest().arrays
        scaled = (x - saved["policy.psi.shift"][0]) * saved["policy.psi.scale"][0]
        return float(saved[beta][0, 0] @ np.concatenate([[1], scaled]))

    def look(report) -> bool:
        if report.update > 1:  # The checkpoint is that of the update before.
            heights.append(height("policy.partition.beta"))
        return report.update < 4

    trained(cart_pole(3000, "learn.averaging=2", "run.candidates=0"), tmp_path / "run", callbacks=[look])
    heights.append(height("policy.partition.beta"))
    # Weights n (n + 1) for lateness 2: exact, where n^2 is the limit.
    assert np.isclose(height("average.beta"), np.average(heights, weights=[2, 6, 12, 20]), atol=1e-4)
    assert abs(height("average.beta") - heights[-1]) > 1e-3


@pytest.mark.parametrize(
    "composed",
    [cart_pole(2000), compose(["two-rooms"], {"run.episodes": 100}, overrides=parse_settings(Config, ROOMS))],
)
def test_the_outcome_is_what_a_run_gives_out(composed, tmp_path):
    """In its result, and to those who read its folder; `policy` in its checkpoints plays on. Our own tasks do the
    same."""
    result = trained(composed, tmp_path / "run")
    learned = ASAP.load(tmp_path / "run").policies
    assert parameter_digest(learned) == result.parameters_sha256
    playing = Run.open(tmp_path / "run").latest().arrays["policy.partition.beta"]
    assert not np.allclose(playing, learned.partition.beta)


def test_cartpole_is_learned():
    model = ASAP("CartPole-v1", hyperplanes=1, skills="constant", seed=5).learn(40_000)
    assert model.evaluate(episodes=20)["return"] > 300  # Random play has 22, the best of 64 random policies about 60.
    assert model.num_parameters == 9 and 40_000 <= model.num_timesteps < 45_000


def test_continuous_actions_are_learned_within_their_bounds():
    model = ASAP(Aim, hyperplanes=1, skills="linear", seed=0, settings=SHORT).learn(30_000)
    assert model.evaluate(episodes=20)["return"] > -0.6  # Zero throughout: -27. Uniform in the bounds: -53.
    action, _ = model.predict(np.float32([0.5]), deterministic=True)
    assert action.shape == (1,) and action.dtype == np.float32 and abs(action[0] - 10) < 2


@pytest.mark.parametrize(
    ("env", "planes", "skills"),
    [
        ("CartPole-v1", 1, "constant"),
        ("Acrobot-v1", 2, "constant"),
        ("Pendulum-v1", 2, "linear"),
        ("FrozenLake-v1", 0, "linear"),
        ("Walk9", 2, "linear"),
    ],
)
def test_defaults_fit_the_environment(env, planes, skills):
    class Walk9(Walk):
        observation_space = gymnasium.spaces.Box(-1, 1, (9,))

    policy = ASAP(Walk9 if env == "Walk9" else env).config.policy
    assert (policy.hyperplanes, policy.skills) == (planes, skills)


@pytest.mark.parametrize(
    ("choice", "steps"),
    [
        ({"features": "network"}, 8000),
        ({"skills": "network"}, 8000),
        ({"features": "fourier"}, 8000),
        ({"features": "poly2", "hyperplanes": 2}, 15_000),
    ],
)
def test_every_kind_of_policy_learns(choice, steps):
    """The four returned 132, 500, 500 and 60 after 8,000 steps; random play has 22."""
    model = ASAP("CartPole-v1", seed=1, **choice).learn(steps)
    assert model.evaluate(episodes=10)["return"] > 80


def test_a_model_is_saved_and_used_without_its_environment(tmp_path):
    class Hidden(Aim):
        """Nobody else can import it."""

    model = ASAP(Hidden, skills="gaussian", features="network", settings=SHORT).learn(2000)
    model.save(tmp_path / "aim.asap")
    loaded = ASAP.load(tmp_path / "aim.asap")
    rows = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
    for one, other in zip(model.predict(rows, deterministic=True), loaded.predict(rows, deterministic=True)):
        np.testing.assert_array_equal(one, other)
    assert loaded.num_timesteps == model.num_timesteps
    with pytest.raises(UserError, match="env: "):
        loaded.evaluate(episodes=2)
    again = ASAP.load(tmp_path / "aim.asap", env=Aim)
    assert again.evaluate(episodes=2)["returns"] == model.evaluate(episodes=2)["returns"]
    with pytest.raises(UserError, match="^env: observation_space"):
        ASAP.load(tmp_path / "aim.asap", env="CartPole-v1")


def test_predict_is_as_stable_baselines3_calls_it():
    """One observation or a row for each environment; states and starts of episodes go along."""
    model = ASAP("CartPole-v1", settings=SHORT)
    env = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync")
    observations, _ = env.reset(seed=0)
    states, starts = None, np.ones(3, bool)
    for _ in range(5):
        actions, states = model.predict(observations, state=states, episode_start=starts, deterministic=True)
        assert actions.shape == states.shape == (3,) and actions.dtype == np.int64
        observations, _, terminated, truncated, _ = env.step(actions)
        starts = terminated | truncated
    action, state = model.predict(observations[0])
    assert env.single_action_space.contains(action) and np.ndim(state) == 0
    with pytest.raises(UserError, match="obs: obs shape"):
        model.predict(np.zeros(3, np.float32))


PARTS = [*SHORT, "learn.batch_steps=96"]


@pytest.fixture(scope="module")
def tanks() -> ASAP:
    """Observations of several parts, actions of several choices."""
    return ASAP("own_envs:Tanks", settings=PARTS).learn(600)


def test_parts_and_combinations_are_learned_by_workers_too(tanks, monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    again = ASAP("own_envs:Tanks", settings=PARTS, workers=2).learn(600)
    assert parameter_digest(again.policy) == parameter_digest(tanks.policy)
    assert again.evaluate(episodes=4)["returns"] == tanks.evaluate(episodes=4)["returns"]


def test_a_policy_over_parts_takes_what_the_environment_gives(tanks):
    env = gymnasium.vector.SyncVectorEnv([Tanks] * 3)
    observations, _ = env.reset(seed=0)
    actions, skills = tanks.predict(observations, deterministic=True)
    assert actions.shape == (3, 2) and actions.dtype == np.int64 and skills.shape == (3,)
    env.step(actions)  # Each asserts that its space contains its action.
    observation, _ = Tanks().reset(seed=1)
    vector = tanks.tasks.tasks[0].reader()(observation)
    for one in (observation, vector):
        action, skill = tanks.predict(one, deterministic=True)
        assert (action == actions[1]).all() and skill == skills[1] and Tanks.action_space.contains(action)
    assert (tanks.predict(vector.tolist(), deterministic=True)[0] == actions[1]).all()
    lists = tanks.predict([tuple(vector.tolist())] * 2, deterministic=True)[0]
    assert (lists == actions[1]).all() and lists.shape == (2, 2)
    vectors = tanks.predict(np.stack([vector] * 2), state=[-1, -1], deterministic=True)[0]
    assert (vectors == actions[1]).all() and vectors.shape == (2, 2)
    none = {key: value[:0] for key, value in observations.items() if key != "arm"}
    empty = {**none, "arm": {key: value[:0] for key, value in observations["arm"].items()}}
    assert tanks.predict(empty)[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tank": np.float32([1, np.nan])}, "obs: obs['tank'][1] is nan"),
        ({"tank": np.zeros((3, 2), np.float32)}, "obs: obs['tank'] shape (3, 2) but observation_space says (2,)"),
        ({"more": 1}, "obs: obs has the key 'more', which is not in observation_space (got ['tank', "),
        ({"arm": {"joint": np.zeros(1, np.float32)}}, "obs: obs['arm'] lacks the key 'grip' of observation_space"),
        ({"arm": 1}, "obs: obs['arm'] must be a dict"),
    ],
)
def test_parts_that_do_not_fit_are_named(tanks, change, said):
    observation = {**Tanks().reset(seed=0)[0], **change}
    with pytest.raises(UserError) as caught:
        tanks.predict(observation)
    assert str(caught.value).startswith(said)
    for vector in (np.zeros(8, np.float32), 1.0):
        with pytest.raises(UserError, match="^obs: obs must be a dict, as observation_space says"):
            tanks.predict(vector)


def test_a_saved_policy_over_parts_knows_them(tanks, tmp_path, capsys):
    tanks.save(tmp_path / "tanks.asap")
    loaded = ASAP.load(tmp_path / "tanks.asap")
    assert loaded.tasks.spec == tanks.tasks.spec and "tank[1]" in loaded.tasks.spec.observation_names
    observation = Tanks().reset(seed=0)[0]
    one, other = (model.predict(observation, deterministic=True)[0] for model in (tanks, loaded))
    assert (one == other).all() and loaded.evaluate(episodes=2) == tanks.evaluate(episodes=2)
    assert capsys.readouterr().err == ""

    class Reordered(Tanks):
        observation_space = gymnasium.spaces.Dict([*Tanks.observation_space.spaces.items()][::-1])

    class Longer(Tanks):
        action_space = gymnasium.spaces.MultiDiscrete([3, 3], start=[-1, 0])

    for env, field in ((Reordered, "observation_space"), (Longer, "action_space"), (Walk, "observation_space")):
        with pytest.raises(UserError, match=f"^env: {field} must be like .*, for which the model was made"):
            ASAP.load(tmp_path / "tanks.asap", env=env)


def test_words_and_pictures_have_the_names_of_parts_and_combinations(tanks):
    text = tanks.explain()
    assert "    drain + closed: " in text and "    fill + open: " in text and "the largest of" in text
    assert '*"mode is 2"' in text and '*"tank[0]"' in text and "own units" in text
    legend = tanks.plot().legends[0].get_texts()
    assert any(name in entry.get_text() for entry in legend for name in tanks.tasks.spec.action_names)


def test_draws_of_predict_begin_anew_with_the_model(tmp_path):
    model = ASAP("CartPole-v1", seed=3, settings=SHORT)
    model.save(tmp_path / "model.asap")
    rows = np.zeros((40, 4), np.float32)
    drawn = [ASAP.load(tmp_path / "model.asap").predict(rows)[0] for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    assert len(set(drawn[0].tolist())) == 2


def test_callbacks_are_told_and_can_stop():
    reports = []
    model = ASAP("CartPole-v1", settings=SHORT)
    model.learn(100_000, callback=lambda report: reports.append(report) or len(reports) < 3)
    assert [report.update for report in reports] == [1, 2, 3] and model.num_timesteps < 10_000
    metrics = metrics_of(reports[-1], 0, 2.0)
    assert metrics["time/total_timesteps"] == model.num_timesteps
    assert metrics["rollout/ep_rew_mean"] == metrics["rollout/ep_len_mean"] > 5
    assert metrics["skills/usage_0"] + metrics["skills/usage_1"] == pytest.approx(1, abs=1e-3)
    assert "rollout/success_rate" not in metrics  # CartPole does not tell.


def test_tensorboard_gets_the_names_of_stable_baselines3(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    ASAP("CartPole-v1", settings=SHORT).learn(2000, tensorboard_log=tmp_path)
    events = EventAccumulator(str(tmp_path / "CartPole-v1-seed-0")).Reload()
    names = set(events.Tags()["scalars"])
    assert {
        "rollout/ep_rew_mean",
        "rollout/ep_len_mean",
        "time/total_timesteps",
        "time/fps",
        "train/approx_kl",
        "skills/usage_1",
    } <= names
    assert events.Scalars("rollout/ep_rew_mean")[-1].step >= 2000


class Board:
    """Stands where wandb's run would: keeps what it is told."""

    def __init__(self):
        self.steps, self.logged, self.is_open = {}, [], True

    def init(self, project, config):
        self.project, self.config = project, config
        return self

    def define_metric(self, name, step_metric):
        self.steps[name] = step_metric

    def log(self, metrics):
        self.logged.append(metrics)

    def finish(self):
        self.is_open = False


@pytest.mark.parametrize(("seeds", "first", "second"), [(1, "", ""), (2, "seed-7/", "seed-8/")])
def test_wandb_gets_the_same_names_over_steps(tmp_path, monkeypatch, seeds, first, second):
    board = Board()
    monkeypatch.setitem(sys.modules, "wandb", board)
    composed = cart_pole(2000, "run.seed=7", f"run.seeds={seeds}")
    with loggers(composed[0], None, "mine", False) as (callbacks, _):
        trained(composed, tmp_path / "run", callbacks=callbacks)
    assert board.project == "mine" and board.config["run"]["steps"] == 2000 and not board.is_open
    assert board.steps[f"{second}*"] == f"{second}time/total_timesteps"
    rows = [row for row in board.logged if f"{first}rollout/ep_rew_mean" in row]
    steps = [row[f"{first}time/total_timesteps"] for row in rows]
    assert len(board.logged) == seeds * len(rows) and steps == sorted(steps) and steps[-1] >= 2000


def test_the_real_wandb_writes_a_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    ASAP("CartPole-v1", settings=SHORT).learn(2000, wandb_project="mine")
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


# ---- The search for a start ---------------------------------------------------------------------------------------


class Scripted(Experience):
    """Stands in for playing: policy n gets what `returns` says of the n-th that was drawn, in episodes of one step."""

    together, most_updates, least_episodes = False, 1, 1

    def __init__(self, tasks: TaskSet, returns):
        self.tasks, self.returns = tasks, returns
        self.known: dict[bytes, int] = {}
        self.rounds = 0

    def evaluate(
        self,
        policies: ASAPPolicy,
        ids: EpisodeIds,
        num_episodes: int,
        deterministic: bool,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        self.rounds += 1
        numbers = [self.number(theta) for theta in policies.skills.theta]
        episodes = [[played(True, float(self.returns(number)))] * num_episodes for number in numbers]
        on_progress(num_episodes * len(numbers))
        return evaluation_of(episodes, self.tasks, policies.num_skills)

    def number(self, theta: np.ndarray) -> int:
        return self.known.setdefault(np.asarray(theta).tobytes(), len(self.known))


def played(success: bool | None, value: float = 0.0) -> Played:
    x, none = np.random.default_rng(0).random((2, 4), np.float32), np.zeros(1, np.int32)
    return Played(EpisodeId(0, 1, 0), x, none, none, np.float32([value]), True, success)


@pytest.mark.parametrize(
    ("budget", "share", "returns", "num_drawn", "num_episodes"),
    [
        # The first 16 also play to show the range of the observations. The better quarter plays twice again, and so on.
        (50_000, 0.2, lambda number: number == 27, 32, 16 + 32 + 2 * (8 + 2 + 1)),
        (50_000, 0.2, lambda number: number == 99, 112, 16 + 112 + 2 * (28 + 7 + 1)),  # Groups until one differs.
        (50_000, 0.001, lambda number: 0.0, 48, 96),  # The share is spent; playing again may take as much once more.
        (36, 0.88, lambda number: number, 16, 36),  # Of the better quarter, half can be played again.
        # Half of the share is spent by 14 policies, so groups are of 14; and they are too few to play again.
        (36, 0.75, lambda number: number, 14, 28),
        (20, 0.2, lambda number: number, 2, 4),  # Of 4 steps, 2 show the range and 2 are compared.
    ],
)
def test_the_search_finds_the_best_and_goes_on_while_all_are_alike(budget, share, returns, num_drawn, num_episodes):
    config, tasks = cart_pole(budget, "run.candidates=32", f"run.search_share={share}", "env.max_steps=1")
    scripted, told = Scripted(tasks, returns), []
    found = search(config, scripted, 0, told.append)
    assert told[0] == 0 and told[-1] == num_drawn and told == sorted(told)
    assert len(scripted.known) == num_drawn and found.totals.episodes.tolist() == [num_episodes]
    best = max(range(num_drawn), key=returns)
    assert returns(scripted.number(found.policy.skills.theta)) == returns(best) and len(scripted.known) == num_drawn


def test_what_is_played_on_raw_observations_chooses_no_policy():
    """The first round shows the range of the observations; the planes were drawn for deviations of 1."""
    config, tasks = cart_pole(50_000, "run.candidates=16")
    scripted = Scripted(tasks, lambda number: number == (3 if scripted.rounds == 1 else 7))
    found = search(config, scripted, 0)
    assert scripted.number(found.policy.skills.theta) == 7 and found.totals.episodes.tolist() == [32 + 2 * (4 + 1)]
    seen = played(True).observations[0]  # Always the same one, which has no deviation: it is not scaled.
    np.testing.assert_allclose(found.moments.mean, seen, rtol=1e-5)


def test_planes_are_not_saturated_whatever_the_unit_of_the_observations(tmp_path):
    """At the start that is found on observations in thousandths, both sides of a plane are probable at many states."""

    def cart_pole_in_thousandths():
        space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        return gymnasium.wrappers.TransformObservation(
            gymnasium.make("CartPole-v1"), lambda x: np.float32(1000 * x), space
        )

    model = ASAP(cart_pole_in_thousandths, hyperplanes=1, settings=[*SHORT, "run.steps=4000"])
    experience = choose(model.config, model.tasks, "0", tmp_path, pytest.fail)
    policy = search(model.config, experience, 0).policy
    visited = experience.evaluate(stack([policy]), EpisodeIds([0], EVALUATION), 5, False).observations
    margins = policy.partition.margins(policy.psi(visited.T, np.zeros((0, len(visited)), np.float32)))
    assert np.median(np.abs(margins)) < 10


@pytest.mark.parametrize(
    ("settings", "num_features", "bias"),
    [
        (["policy.basis=fourier", "policy.frequencies=[[1,0,0,0]]", "policy.bias=false"], 1, 0),
        (["policy.basis=fourier", "policy.frequencies=[[1,0,0,0],[0,1,0,2]]", "policy.bias=false"], 2, 0),
        (["policy.basis=fourier", "policy.frequencies=[[1,0,0,0]]", "policy.bias=true"], 2, 1),
        (["policy.basis=linear"], 5, 1),
        (["policy.basis=network"], 17, 1),
    ],
)
def test_planes_are_drawn_equally_decided_with_and_without_a_bias(settings, num_features, bias):
    """The norm of the margins' slopes is the same, whether or not the first feature is the constant 1."""
    config, tasks = cart_pole(1000, *settings, "policy.hyperplanes=2")
    planes = draw(config, tasks, np.random.default_rng(0)).partition
    assert planes.beta.shape == (2, num_features)
    slopes = float(planes.alpha_beta) * planes.beta[:, bias:]
    np.testing.assert_allclose(np.linalg.norm(slopes, axis=1), MARGIN, rtol=1e-5)


# ---- What is odd --------------------------------------------------------------------------------------------------


def test_rewards_that_never_differ_are_remarked(tmp_path, capsys):
    ASAP(Same, settings=SHORT).learn(4000, run=tmp_path / "run")
    told = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    messages = [event["message"] for event in told if event["kind"] == "notice"]
    assert (
        len([m for m in messages if m.startswith("no learning signal: every episode so far had a return of 12")]) == 1
    )


def test_episodes_of_one_step_are_refused_unless_allowed():
    with pytest.raises(RunError, match="ended at their first step"):
        ASAP(Instant, settings=SHORT).learn(2000)
    ASAP(Instant, settings=[*SHORT, "env.allow_one_step=true"]).learn(2000)


def test_success_is_unknown_where_an_environment_does_not_tell():
    tasks = cart_pole()[1]
    assert np.isnan(known_mean(evaluation_of([[played(None)]], tasks, 2).success))
    assert known_mean(evaluation_of([[played(True), played(False)]], tasks, 2).success) == 0.5


def test_what_the_settings_say_of_an_environment_holds_for_a_live_one():
    model = ASAP(Walk, settings=[*SHORT, "env.max_steps=5"])
    assert model.evaluate(episodes=3)["length"] == 5
    whole, half = (
        ASAP(Walk, settings=[*SHORT, f"env.reward_scale={scale}"]).evaluate(episodes=3)["returns"]
        for scale in (1.0, 0.5)
    )
    np.testing.assert_allclose(half, 0.5 * np.asarray(whole), rtol=1e-5)
