"""What enters from a foreign environment: good values unchanged, odd ones noted, bad ones refused in a line that says
where."""

import functools
import json
import os
import signal
import sys

import gymnasium
import numpy as np
import own_envs as envs
import pytest
from gymnasium import spaces

from asap.base.episodes import TRAINING, EpisodeId
from asap.base.errors import RunError, UserError
from asap.config.schema import EnvConfig
from asap.envs.gymnasium import spaces as space_records
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.observations import reading
from asap.envs.gymnasium.restored import restore
from asap.envs.gymnasium.spaces import control, num_actions, number_of, recorded, sample
from asap.envs.gymnasium.task import describe
from asap.envs.resolve import resolve
from asap.workers.failures import Recording, failure
from asap.workers.work import Failed

EPISODE = EpisodeId(seed=5, stream=TRAINING, number=41)


def source(make, **options) -> EnvSource:
    return EnvSource("test", {}, functools.partial(make, **options))


def play(checked: CheckedEnv, episode: EpisodeId = EPISODE, action=1) -> list:
    """Observations and rewards of one episode."""
    seen, ended = [(checked.reset(episode), None)], False
    while not ended:
        x, reward, ended = checked.step(action)
        seen.append((x, reward))
    return seen


def line_of(make, rules: EnvLimits = EnvLimits(), episodes: int = 1, **options) -> str:
    """What the user reads about the failure of an episode."""
    checked = CheckedEnv(source(make, **options), rules)
    with pytest.raises(EnvError) as caught:
        for _ in range(episodes):
            play(checked)
    failed = Failed(EPISODE, **caught.value.report())
    line = str(failure(failed, EnvSource("NAME")))
    assert "\n" not in line and line.startswith(f"{failed.field}: ")
    assert (
        f"at episode 41 step {failed.step} (seed {EPISODE.reset_seed}); reproduce it with: asap check NAME --seed"
        in line
    )
    assert len(failed.actions) == failed.step
    return line


# (id, mode of the environment, what the line must contain)
REFUSED = [
    ("1 nan obs", "nan_obs", "obs[1] is nan at episode 41 step 7"),
    ("2 inf obs", "inf_obs", "obs[2] is -inf at"),
    ("2 obs beyond float32", "huge_obs", "obs[0] is 1e+300, more than float32 can hold"),
    ("3 nan reward", "nan_reward", "reward is nan at"),
    ("4 inf reward", "inf_reward", "reward is inf at"),
    ("4 -inf reward", "minus_inf_reward", "reward is -inf at"),
    ("5 reward None", "none_reward", "reward must be a number (got None)"),
    ("6 reward text", "text_reward", "reward must be a scalar (got str '1.0')"),
    ("6 reward array", "array_reward", "reward must be a scalar (got ndarray array([1.]))"),
    ("6 reward complex", "complex_reward", "reward must be a scalar (got complex 1j)"),
    (
        "7 reward 1e300",
        "reward_1e300",
        "reward is 1e+300, and the return more than float32 can hold: make reward_scale smaller",
    ),
    ("8 shape", "shape_obs", "obs shape (4,) but observation_space says (3,)"),
    ("9 scalar", "scalar_obs", "obs shape () but observation_space says (3,)"),
    ("9 number", "number_obs", "obs shape () but observation_space says (3,)"),
    ("10 None", "none_obs", "obs dtype object cannot be cast to float32"),
    ("10 object", "object_obs", "obs dtype object cannot be cast to float32"),
    ("10 text", "text_obs", "obs dtype <U1 cannot be cast to float32"),
    ("10 complex", "complex_obs", "obs dtype complex128 cannot be cast to float32"),
    ("10 ragged", "ragged_obs", "obs is not an array of numbers (got list [1, [2, 3]])"),
    ("19 raises", "raises", "env raised RuntimeError: simulator gone for good at episode 41 step 7"),
    ("19 exits", "exits", "env raised SystemExit: 3"),
    ("29 terminated array", "terminated_array", "terminated must be True or False (got ndarray array([ True, False]))"),
    ("29 terminated text", "terminated_text", "terminated must be True or False (got str 'yes')"),
    ("29 terminated None", "terminated_none", "terminated must be True or False (got None)"),
    ("29 truncated 2", "truncated_2", "truncated must be True or False (got 2)"),
    ("30 four values", "four_values", "step returned 4 values; Gymnasium needs 5 (wrap with shimmy)"),
    ("30 no tuple", "no_tuple", "step must return (obs, reward, terminated, truncated, info) (got ndarray"),
]


@pytest.mark.parametrize(("mode", "must_contain"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_bad_answers_of_step_are_refused(mode, must_contain):
    line = line_of(envs.spoiled, mode=mode)
    assert line.startswith("env.step: ") and "step 7" in line
    assert must_contain in line


# (id, factory, options, rules, episodes played, field, what the line must contain)
REFUSED_ELSEWHERE = [
    ("1 nan at reset", envs.NanAtReset, {}, EnvLimits(), 1, "env.reset", "obs[0] is nan at episode 41 step 0"),
    (
        "11 strict",
        envs.spoiled,
        {"mode": "outside_obs"},
        EnvLimits(strict_obs=True),
        1,
        "env.step",
        "obs[2] is 1000, outside",
    ),
    (
        "15 actions",
        envs.Changing,
        {"field": "action_space"},
        EnvLimits(),
        3,
        "action_space",
        "changed from Discrete(2) to Discrete(3)",
    ),
    (
        "16 observations",
        envs.Changing,
        {"field": "observation_space"},
        EnvLimits(),
        3,
        "observation_space",
        "changed from Box(-100.0",
    ),
    (
        "20 reset raises",
        envs.ResetRaises,
        {"times": 6},
        EnvLimits(),
        1,
        "env.reset",
        "env raised ConnectionError: no answer",
    ),
    (
        "20 no retries",
        envs.ResetRaises,
        {"times": 1},
        EnvLimits(env_retries=0),
        1,
        "env.reset",
        "env raised ConnectionError: no answer",
    ),
    ("30 old reset", envs.OldReset, {}, EnvLimits(), 1, "env.reset", "reset must return (obs, info) (got ndarray"),
]


@pytest.mark.parametrize("case", REFUSED_ELSEWHERE, ids=[case[0] for case in REFUSED_ELSEWHERE])
def test_bad_behaviour_is_refused(case):
    _, make, options, rules, episodes, field, must_contain = case
    line = line_of(make, rules, episodes, **options)
    assert line.startswith(f"{field}: ") and must_contain in line


@pytest.mark.parametrize("rewards", [(3e38, 3e38), (-2e38, 4e38)])
def test_returns_and_rewards_that_float32_cannot_hold(rewards):  # 7
    class Rich(envs.Walk):
        def step(self, action):
            self.time += 1
            return self.observe(), rewards[self.time - 1], self.time == 2, False, {}

    assert "step 2" in line_of(Rich)
    assert [reward for _, reward in play(CheckedEnv(source(Rich), EnvLimits(reward_scale=1e-9)))][1:] == pytest.approx(
        [1e-9 * r for r in rewards]
    )


def test_the_traceback_of_the_environment_is_kept():
    checked = CheckedEnv(source(envs.spoiled, mode="raises"), EnvLimits())
    with pytest.raises(EnvError) as caught:
        play(checked)
    assert "in spoil" in caught.value.report()["traceback"]


# (id, mode, what the note must contain, or None for no note)
ACCEPTED = [
    ("7 reward 1e30", "reward_1e30", "reward is 1e+30"),
    ("10 int", "int_obs", "obs has dtype int64 but observation_space says float32"),
    ("10 float64", "float64_obs", "obs has dtype float64 but observation_space says float32"),
    ("10 list", "list_obs", "obs has dtype float64"),
    ("10 float16", "float16_obs", "obs has dtype float16 but observation_space says float32"),
    ("11 outside", "outside_obs", "obs[2] is 1000, outside of observation_space, which says -100 to 100"),
    ("29 numpy bool", "terminated_numpy", None),
    ("29 int", "terminated_int", None),
    ("29 0d array", "terminated_0d", None),
    ("reward int", "reward_int", None),
    ("reward float32", "reward_float32", None),
    ("reward 0d array", "reward_0d", None),
    ("reward of a class of its own", "reward_own", None),
    ("no info", "no_info", None),
]


@pytest.mark.parametrize(("mode", "note"), [case[1:] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED])
def test_odd_answers_are_taken_and_noted_once(mode, note):
    checked = CheckedEnv(source(envs.spoiled, mode=mode), EnvLimits())
    seen = play(checked)
    assert len(seen) == 1 + (envs.BAD_STEP if mode.startswith("terminated") else envs.LENGTH)
    x, reward = seen[envs.BAD_STEP]
    assert x.dtype == np.float32 and x.shape == (3,) and type(reward) is float
    assert checked.terminated is True
    notes = checked.take_notes()
    assert len(notes) == (note is not None) and all(note in each for each in notes)
    play(checked)
    assert checked.take_notes() == ()
    if mode.endswith("_obs"):
        assert x.tolist() == [1, 2, 1000 if mode == "outside_obs" else 3]
    if mode in ("reward_int", "reward_float32", "reward_0d", "reward_own"):
        assert reward == 3.0


def test_values_come_through_unchanged():
    env, checked = envs.Walk(), CheckedEnv(source(envs.Walk), EnvLimits(reward_scale=0.5))
    observation, _ = env.reset(seed=EPISODE.reset_seed)
    seen = play(checked)
    assert (seen[0][0] == observation).all()
    for x, scaled in seen[1:]:
        observation, reward, *_ = env.step(1)
        assert (x == observation).all() and scaled == 0.5 * reward
    assert checked.terminated and checked.success is True


def test_success_is_told_by_the_keys_that_are_used_for_it():
    checked = CheckedEnv(source(envs.spoiled, mode="is_success"), EnvLimits())
    play(checked)
    assert checked.success is False
    assert CheckedEnv(source(envs.Endless), EnvLimits(max_steps=3)).success is None


def test_an_array_that_the_environment_uses_again_is_copied():  # 12
    reused, fresh = (play(CheckedEnv(source(make), EnvLimits())) for make in (envs.OneBuffer, envs.Walk))
    for (x, _), (expected, _) in zip(reused, fresh, strict=True):
        assert (x == expected).all()


def test_a_reset_that_raises_is_tried_again():  # 20
    checked = CheckedEnv(source(envs.ResetRaises, times=2), EnvLimits())
    assert len(play(checked)) == envs.LENGTH + 1
    assert "ConnectionError" in checked.take_notes()[0]


def test_all_that_the_settings_ask_of_an_environment_is_asked_of_it():
    env = EnvConfig(max_steps=7, strict_obs=True, reward_scale=0.5, retries=4)
    assert resolve("CartPole-v1", env).limits == EnvLimits(7, True, 0.5, 4)
    checked = CheckedEnv(source(envs.ResetRaises, times=1), resolve("CartPole-v1", EnvConfig(retries=0)).limits)
    with pytest.raises(EnvError, match="ConnectionError"):
        play(checked)


def test_a_border_goes_on_after_trouble():
    checked = CheckedEnv(source(envs.spoiled, mode="raises"), EnvLimits())
    for _ in range(2):
        with pytest.raises(EnvError):
            play(checked)


@pytest.mark.parametrize(
    ("make", "max_steps", "length"), [(envs.Endless, None, 1000), (envs.Endless, 20, 20), (envs.Walk, 5, 5)]
)
def test_endless_episodes_are_truncated(make, max_steps, length):  # 26
    checked = CheckedEnv(source(make), EnvLimits(max_steps=max_steps))
    assert len(play(checked)) == length + 1
    assert checked.terminated is False
    assert f"cut after {length} steps" in checked.take_notes()[0]


def test_the_limit_of_the_environment_holds_too():
    limited = CheckedEnv(EnvSource("own_envs:Walk-v0"), EnvLimits())
    assert len(play(limited)) == 11 and limited.take_notes() == ()
    assert describe(EnvSource("own_envs:Walk-v0"), EnvLimits()).spec.horizon == 10
    assert describe(EnvSource("own_envs:Walk-v0"), EnvLimits(max_steps=4)).spec.horizon == 4
    without_id = source(lambda: gymnasium.wrappers.TimeLimit(envs.Endless(), 2000))
    assert describe(without_id, EnvLimits()).spec.horizon == 2000


@pytest.mark.parametrize("ends", [(True, False), (False, True), (True, True), (False, False)], ids=str)
def test_an_episode_that_was_cut_has_not_terminated(ends):
    """Whether it was cut by the environment or by a limit of steps: the value of its end counts for the learner."""

    class Ends(envs.Walk):
        def step(self, action):
            self.time += 1
            return self.observe(), 1.0, *(flag and self.time == 3 for flag in ends), {}

    def limited():
        return gymnasium.wrappers.TimeLimit(Ends(), 4)

    for make in (Ends, limited):
        checked = CheckedEnv(source(make), EnvLimits(max_steps=5))
        assert len(play(checked)) == 1 + (3 if any(ends) else 5 if make is Ends else 4)
        assert checked.terminated is ends[0]


def test_a_bad_number_is_found_among_many():
    """Of more than 64 numbers the largest is looked for by NumPy: nan and infinity still show."""
    read = reading(spaces.Box(-np.inf, np.inf, (100,), np.float32), pytest.fail)
    good = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(read(good), good)
    for bad, told in ((np.nan, "obs[70] is nan"), (-np.inf, "obs[70] is -inf")):
        spoiled = good.copy()
        spoiled[70] = bad
        with pytest.raises(EnvError) as caught:
            read(spoiled)
        assert caught.value.what == told


def test_each_episode_has_its_own_sum_of_large_rewards():
    """2e38 once per episode: two of them are more than float32 can hold, but no episode has two."""

    class Rich(envs.Walk):
        def step(self, action):
            self.time += 1
            return self.observe(), 2e38, self.time == 1, False, {}

    checked = CheckedEnv(source(Rich), EnvLimits())
    for _ in range(3):
        assert [reward for _, reward in play(checked)][1:] == [2e38]


def test_an_episode_may_end_at_its_first_step():  # 27
    class Short(envs.Walk):
        def step(self, action):
            return self.observe(), 1.0, True, False, {}

    assert len(play(CheckedEnv(source(Short), EnvLimits()))) == 2


@pytest.mark.parametrize("when", ["make", "reset", "step"])
def test_prints_handlers_and_moves_stay_within(when, capfd):  # 33
    handler, folder, stdout = signal.getsignal(signal.SIGTERM), os.getcwd(), sys.stdout
    checked = CheckedEnv(source(envs.Rude, when=when), EnvLimits())
    play(checked)
    notes = checked.take_notes()
    play(checked)
    assert (signal.getsignal(signal.SIGTERM), os.getcwd(), sys.stdout) == (handler, folder, stdout)
    assert capfd.readouterr().out == ""
    assert len(notes) == 3 and any("hello from the simulator" in note for note in notes)
    assert checked.take_notes() == ()
    if when == "make":
        describe(source(envs.Rude, when=when), EnvLimits())
        assert (os.getcwd(), capfd.readouterr().out) == (folder, "")


def test_an_environment_that_cannot_be_closed_does_not_matter():
    assert CheckedEnv(source(envs.CannotClose), EnvLimits()).close() is None
    assert describe(source(envs.CannotClose), EnvLimits()).spec.num_actions == 2


# (id, space, element, vector that stands for it)
READ = [
    ("Box", spaces.Box(-9, 9, (2, 2)), np.array([[1, 2], [3, 4]], np.float32), [1, 2, 3, 4]),
    ("Box of bytes", spaces.Box(0, 255, (2,), np.uint8), np.array([7, 255], np.uint8), [7, 255]),
    (
        "Box of large numbers",
        spaces.Box(-np.inf, np.inf, (2,)),
        np.array([3e38, -3e38], np.float32),
        [np.float32(3e38), np.float32(-3e38)],
    ),
    (
        "Box of many numbers",
        spaces.Box(-9, 9, (100,), np.float64),
        np.arange(100) / 99,
        (np.arange(100) / 99).astype(np.float32).tolist(),
    ),
    ("Discrete", spaces.Discrete(3, start=5), np.int64(6), [0, 1, 0]),
    ("Discrete from a plain int", spaces.Discrete(3), 2, [0, 0, 1]),
    ("MultiDiscrete", spaces.MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
    ("MultiDiscrete from 1", spaces.MultiDiscrete([2, 2], start=[1, 1]), np.array([1, 2]), [1, 0, 0, 1]),
    ("MultiBinary", spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
    (
        "Dict in the order of the space",
        spaces.Dict([("b", spaces.Box(-9, 9, (2,))), ("a", spaces.Box(-9, 9, ()))]),
        {"a": np.float32(3), "b": np.float32([1, 2])},
        [1, 2, 3],
    ),
    (
        "Dict of every kind",
        spaces.Dict(
            a=spaces.Discrete(2, start=5),
            b=spaces.MultiDiscrete([2, 2], start=[1, 1]),
            c=spaces.Dict(d=spaces.MultiBinary(2), e=spaces.Dict(f=spaces.Box(-9, 9, (1, 2), np.float64))),
        ),
        {"a": 6, "b": np.array([2, 1]), "c": {"d": np.int8([1, 0]), "e": {"f": np.array([[7.0, 8.0]])}}},
        [0, 1, 0, 1, 1, 0, 1, 0, 7, 8],
    ),
]


@pytest.mark.parametrize(("space", "element", "vector"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_observations_become_vectors(space, element, vector):
    class Constant(envs.Walk):
        observation_space = space

        def observe(self):
            return element

    checked = CheckedEnv(source(Constant), EnvLimits())
    x = checked.reset(EPISODE)
    assert x.dtype == np.float32 and x.tolist() == vector
    assert checked.step(0)[0].tolist() == vector
    spec = describe(source(Constant), EnvLimits()).spec
    assert len(spec.observation_names) == len(spec.observation_low) == len(spec.observation_high) == len(vector)
    assert len(set(spec.observation_names)) == len(vector)
    assert checked.take_notes() == ()


TANK = spaces.Dict([("tank", spaces.Box(0, 10, (2,))), ("mode", spaces.Discrete(2))])


@pytest.mark.parametrize(
    ("space", "element", "must_contain"),
    [
        (spaces.Discrete(3), 3, "outside of observation_space Discrete(3) (got 3)"),
        (spaces.Discrete(3, start=1), 0, "outside of observation_space"),
        (spaces.Discrete(3), 1.0, "must be an integer"),
        (spaces.Discrete(3), np.array([1]), "must be an integer"),
        (spaces.MultiDiscrete([2, 3]), np.array([0, 3]), "outside of observation_space"),
        (spaces.MultiDiscrete([2, 3]), np.array([0, -1]), "outside of observation_space"),
        (spaces.MultiDiscrete([2, 3]), np.array([0.0, 1.0]), "obs dtype float64 cannot be cast"),
        (spaces.MultiDiscrete([2, 3]), np.array([0]), "obs shape (1,) but observation_space says (2,)"),
        (TANK, {"tank": np.float32([1, np.nan]), "mode": 0}, "obs['tank'][1] is nan at episode 41 step 0"),
        (TANK, {"tank": np.float32([1]), "mode": 0}, "obs['tank'] shape (1,) but observation_space says (2,)"),
        (TANK, {"tank": np.float32([1, 2]), "mode": 2}, "obs['mode'] is outside of observation_space Discrete(2)"),
        (TANK, {"tank": np.float32([1, 2])}, "obs lacks the key 'mode' of observation_space"),
        (TANK, {"tank": 0, "mode": 0, "more": 1}, "obs has the key 'more', which is not in observation_space"),
        (TANK, np.zeros(4, np.float32), "obs must be a dict, as observation_space says (got ndarray"),
        (spaces.Dict(arm=TANK), {"arm": {"tank": 0}}, "obs['arm'] lacks the key 'mode'"),
        (spaces.Dict(arm=spaces.Box(0, 1, ())), {"arm": np.float32(np.inf)}, "obs['arm'] is inf"),
    ],
)
def test_observations_outside_of_finite_spaces_are_refused(space, element, must_contain):
    class Constant(envs.Walk):
        observation_space = space

        def observe(self):
            return element

    assert must_contain in line_of(Constant)


def test_a_part_outside_of_its_bounds_is_named():
    class TooFull(envs.Tanks):
        def observe(self):
            return {**super().observe(), "arm": {"joint": np.float32([3]), "grip": np.int8([0, 1])}}

    checked = CheckedEnv(source(TooFull), EnvLimits())
    play(checked)
    assert checked.take_notes() == ("obs['arm']['joint'][0] is 3, outside of observation_space, which says -1 to 1",)
    line = line_of(TooFull, EnvLimits(strict_obs=True))
    assert line.startswith("env.reset: obs['arm']['joint'][0] is 3, outside of observation_space")


# (id, action space, action in our units, action that the environment gets)
ACTED = [
    ("14 start", spaces.Discrete(3, start=5), 2, np.int64(7)),
    ("Box", spaces.Box(np.float32([-2, 0]), np.float32([2, 10])), np.array([0.5, 0.0]), np.float32([1, 5])),
    ("clipped", spaces.Box(np.float32([-2, 0]), np.float32([2, 10])), np.array([-3.0, 3.0]), np.float32([-2, 10])),
    ("rounding", spaces.Box(-0.1, 0.3, (1,), np.float64), np.array([1.0]), np.array([0.3])),
    (
        "one bound",
        spaces.Box(np.float32([0, -np.inf]), np.float32([np.inf, 5])),
        np.array([-3.0, 7.0]),
        np.float32([0, 5]),
    ),
    ("no bound", spaces.Box(-np.inf, np.inf, (1,)), np.array([123.0]), np.float32([123])),
    ("shape", spaces.Box(-1, 1, (2, 2)), np.array([0.1, 0.2, 0.3, 0.4]), np.float32([[0.1, 0.2], [0.3, 0.4]])),
    ("whole numbers", spaces.Box(0, 4, (1,), np.int64), np.array([0.4]), np.array([3])),
    # Combinations are numbered with the last part changing fastest: 3 = 1 * 2 + 1.
    ("MultiDiscrete", spaces.MultiDiscrete([3, 2]), 3, np.array([1, 1])),
    ("MultiDiscrete start", spaces.MultiDiscrete([3, 2], start=[-1, 4]), 3, np.array([0, 5])),
    ("MultiDiscrete dtype", spaces.MultiDiscrete([3, 2], dtype=np.int32), 0, np.int32([0, 0])),
    ("MultiDiscrete shape", spaces.MultiDiscrete([[2, 2], [2, 3]]), 7, np.array([[0, 1], [0, 1]])),
    ("MultiBinary", spaces.MultiBinary(3), 6, np.int8([1, 1, 0])),
]


@pytest.mark.parametrize(("space", "ours", "theirs"), [case[1:] for case in ACTED], ids=[case[0] for case in ACTED])
def test_actions_become_those_of_the_environment(space, ours, theirs):
    env = envs.Spaces(action_space=space)
    checked = CheckedEnv(EnvSource("test", {}, lambda: env), EnvLimits())
    checked.reset(EPISODE)
    checked.step(ours)  # The environment asserts that its space contains it.
    got = env.last_action
    assert type(got) is type(theirs) and got.dtype == theirs.dtype and got.shape == theirs.shape
    assert (got == theirs).all()


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([3, 2], start=[1, 0]), spaces.MultiBinary(2)], ids=str)
def test_combinations_are_counted_and_found_again(space):
    act, count = control(space), num_actions(space)
    actions = [act(number) for number in range(count)]
    assert all(map(space.contains, actions)) and len({tuple(action) for action in actions}) == count
    assert [number_of(space, action) for action in actions] == list(range(count))
    actions[0][:] = 9  # An environment may write into what it is given.
    assert space.contains(act(0))
    for wrong in (actions[0], actions[1][:1], actions[1] + 0.5, "left"):
        with pytest.raises(ValueError):
            number_of(space, wrong)
    drawn = {sample(space, np.random.default_rng(seed)) for seed in range(60)}
    assert drawn == set(range(count)) and recorded(space, count - 1) == count - 1
    with pytest.raises(ValueError):
        recorded(space, count)


DICT = spaces.Dict(a=spaces.Discrete(2))


def nested(levels):
    return DICT if levels == 1 else spaces.Dict(a=nested(levels - 1))


IMAGE = spaces.Box(0, 255, (96, 96, 3), np.uint8)
# (id, space of observations, space of actions, field, what the line must contain)
UNSUPPORTED = [
    (
        "13 Tuple in a Dict",
        spaces.Dict(a=DICT, b=spaces.Dict(c=spaces.Tuple([spaces.Discrete(2)]))),
        None,
        "observation_space['b']['c']",
        "Tuple is not supported (got Tuple(Discrete(2))); flatten with gymnasium.wrappers.FlattenObservation",
    ),
    ("13 image in a Dict", spaces.Dict(a=IMAGE), None, "observation_space['a']", "images are not supported"),
    ("13 large Dict", spaces.Dict(a=DICT, b=spaces.Box(0, 1, (4095,))), None, "observation_space", "4,097 numbers"),
    ("17 empty Dict", spaces.Dict(a=spaces.Dict()), None, "observation_space", "Dict has no numbers in it"),
    ("Dict key", spaces.Dict({3: DICT}), None, "observation_space", "a key of Dict must be printable text"),
    ("Dict key of two lines", spaces.Dict({"a\n": DICT}), None, "observation_space", r"(got 'a\n'); rename it"),
    ("Dict too deep", nested(9), None, "observation_space" + "['a']" * 8, "more than 8 levels deep"),
    ("13 Tuple", spaces.Tuple([spaces.Discrete(2)]), None, "observation_space", "FlattenObservation"),
    ("13 Text", spaces.Text(3), None, "observation_space", "ObservationWrapper that turns the text into numbers"),
    ("13 Graph", spaces.Graph(spaces.Discrete(2), None), None, "observation_space", "Graph is not supported"),
    ("13 Sequence", spaces.Sequence(spaces.Discrete(2)), None, "observation_space", "fixed number"),
    (
        "13 image",
        IMAGE,
        None,
        "observation_space",
        "images are not supported (got Box(0, 255, (96, 96, 3), uint8)); rules over",
    ),
    ("13 large", spaces.Box(0, 1, (5000,)), None, "observation_space", "5,000 numbers are too many"),
    (
        "13 MultiDiscrete actions",
        None,
        spaces.MultiDiscrete([5, 13]),
        "action_space",
        "65 combinations are too many, the most is 64 (got MultiDiscrete([ 5 13])); write a gymnasium.ActionWrapper that",
    ),
    ("13 MultiBinary actions", None, spaces.MultiBinary(7), "action_space", "128 combinations are too many"),
    ("13 many switches", None, spaces.MultiBinary(9000), "action_space", "more than 1,000,000,000 combinations"),
    ("13 Dict actions", None, DICT, "action_space", "ActionWrapper with Discrete or Box"),
    ("17 no observations", spaces.Box(0, 1, (0,)), None, "observation_space", "Box has no numbers in it"),
    ("17 no dimensions", spaces.Box(0, 1, ()), None, "observation_space", "Box has no dimensions"),
    ("17 no controls", None, spaces.Box(0, 1, (0,)), "action_space", "Box([], [], (0,), float32) has no actions"),
]


@pytest.mark.parametrize("case", UNSUPPORTED, ids=[case[0] for case in UNSUPPORTED])
@pytest.mark.parametrize("use", [CheckedEnv, describe])
def test_unsupported_spaces_are_refused(use, case):
    _, observation_space, action_space, field, must_contain = case
    given = {"observation_space": observation_space, "action_space": action_space}
    with pytest.raises(UserError) as caught:
        use(source(envs.Spaces, **{name: space for name, space in given.items() if space is not None}), EnvLimits())
    assert caught.value.field == field and must_contain in str(caught.value)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([4, 16]), spaces.MultiBinary(6)], ids=str)
def test_64_combinations_are_not_too_many(space):
    assert describe(source(envs.Spaces, action_space=space), EnvLimits()).spec.num_actions == 64


def test_a_space_without_actions_is_refused():  # 17
    nothing = spaces.Discrete(1)
    nothing.n = np.int64(0)  # Gymnasium does not let us make it; an environment may.
    with pytest.raises(UserError, match=r"action_space: Discrete\(0\) has no actions"):
        describe(source(envs.Spaces, action_space=nothing), EnvLimits())


# (id, what the user gives, options, what the line must contain)
UNKNOWN = [
    ("21 spelling", "CartPol-v1", {}, "'CartPol-v1' is not registered; did you mean 'CartPole-v1'?"),
    ("21 version", "CartPole-v9", {}, "'CartPole-v9' is not registered; did you mean 'CartPole-v1'?"),
    ("21 namespace", "ALE/Pong-v5", {}, "'ALE/Pong-v5' is not registered; name the module that registers 'ALE' too"),
    ("21 malformed", "Cart Pole", {}, "'Cart Pole' is not registered"),
    ("21 nothing like it", "Qwxyz", {}, "'Qwxyz' is not registered; list"),
    (
        "21 id of a module",
        "own_envs:Wolk-v0",
        {},
        "'own_envs:Wolk-v0' is not registered; did you mean 'Walk-v0'?",
    ),
    ("21 module", "no_such_module:make", {}, "module 'no_such_module', which is not installed; check the spelling"),
    (
        "21 function",
        "own_envs:wolk",
        {},
        "module 'own_envs' has no function 'wolk' (got 'own_envs:wolk'); did you mean 'walk'?",
    ),
    (
        "21 constructor",
        "own_envs:fails_to_start",
        {},
        "making 'own_envs:fails_to_start' raised OSError: port 6000 is taken",
    ),
    (
        "21 option",
        "CartPole-v1",
        {"sutton": True},
        "raised TypeError: CartPoleEnv.__init__() got an unexpected keyword argument 'sutton'",
    ),
    ("21 not an env", "own_envs:NotAnEnv", {}, "not a gymnasium.Env but NotAnEnv"),
    ("21 not an env object", 3, {}, "not a gymnasium.Env but int"),
    ("options of a live env", envs.Walk(), {"a": 1}, "takes no options (got ['a'])"),
]


@pytest.mark.parametrize(
    ("origin", "options", "must_contain"), [case[1:] for case in UNKNOWN], ids=[case[0] for case in UNKNOWN]
)
def test_what_cannot_be_made_is_explained_in_a_line(origin, options, must_contain):
    with pytest.raises(UserError) as caught:
        EnvSource.of(origin, options).build()
    assert str(caught.value).startswith("env: ") and must_contain in str(caught.value)


# (what the user gives in a folder with tanks.py, what the line must end with)
MEANT = [
    ("tanks.TwoTanks", "'tanks.TwoTanks' is not registered; did you mean 'tanks:TwoTanks'?"),
    ("TwoTanks", "'TwoTanks' is not registered; did you mean 'tanks:TwoTanks'?"),
    ("make_tanks", "'make_tanks' is not registered; did you mean 'tanks:make_tanks'?"),
    ("StrikerTank", "'StrikerTank' is not registered; did you mean 'tanks:StrikerTank'?"),
    ("qwxyz", "'qwxyz' is not registered; list what there is with gymnasium.pprint_registry()"),
    ("tanks", "'tanks' is not registered; name the function in it that makes the environment: tanks:FUNCTION"),
    ("tanks.py:TwoTanks", "names a path, not a module (got 'tanks.py:TwoTanks'); did you mean 'tanks:TwoTanks'?"),
    ("./tanks.py:TwoTanks", "names a path, not a module (got './tanks.py:TwoTanks'); did you mean 'tanks:TwoTanks'?"),
    ("tank:TwoTanks", "needs the module 'tank', which is not installed; did you mean 'tanks:TwoTanks'?"),
    ("reservoirs:TwoTanks", "'reservoirs', which is not installed; did you mean 'tanks:TwoTanks'?"),
    (
        "reservoirs:Lake",
        "check the spelling, run in the folder that has reservoirs.py, put that folder on PYTHONPATH, or pip install it",
    ),
]


@pytest.mark.parametrize(("name", "line"), MEANT)
def test_a_slip_in_the_name_of_an_own_class_is_mended_without_an_import(name, line, tmp_path, monkeypatch):
    text = "raise SystemError\nclass TwoTanks: ...\ndef make_tanks():\n    def qwxyz(): ...\nclass StrikerTank: ...\n"
    (tmp_path / "tanks.py").write_text(text)
    (tmp_path / "other.py").write_bytes(b"\xff\n# class TwoTanks\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UserError) as caught:
        resolve(name)
    assert str(caught.value).startswith("env: ") and str(caught.value).endswith(line)


def test_what_a_script_defines_has_no_name_for_others():
    with pytest.raises(UserError) as caught:
        EnvSource.of("__main__:TwoTanks").build()
    what = "other programs cannot import what a script defines in __main__ (got '__main__:TwoTanks')"
    assert str(caught.value) == f"env: {what}; put it into a module file and give module:name"


def test_vector_environments_are_refused():
    vector = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    for origin in (vector, lambda: vector):
        with pytest.raises(UserError, match="vector environment"):
            EnvSource.of(origin).build()
    vector.close()


def test_a_missing_package_is_named():
    def make():
        raise gymnasium.error.DependencyNotInstalled('Box2D is not installed, run `pip install "gymnasium[box2d]"`')

    with pytest.raises(UserError, match=r"package that is not installed; .*gymnasium\[box2d\]"):
        EnvSource.of(make).build()


def local_factory():
    def make():
        return envs.Walk()

    return make


class WithCall:
    def __call__(self):
        return envs.Walk()


# (id, origin, options, what the line must contain)
UNPORTABLE = [
    ("34 lambda", lambda: envs.Walk(), {}, "env factory cannot be sent to workers (lambda)"),
    ("34 local", local_factory(), {}, "(a local function)"),
    ("34 partial", functools.partial(envs.spoiled, "nan_obs"), {}, "(a partial that cannot be imported)"),
    ("34 object", WithCall(), {}, "(a WithCall that cannot be imported)"),
    ("34 live", envs.Walk(), {}, "an environment object cannot be sent to workers (what was set on it would be lost)"),
    ("34 live with an id", gymnasium.make("CartPole-v1"), {}, "an environment object cannot be sent to workers"),
    ("34 options", "CartPole-v1", {"a": {1, 2}}, "(options are not plain data"),
]


@pytest.mark.parametrize(
    ("origin", "options", "must_contain"), [case[1:] for case in UNPORTABLE], ids=[case[0] for case in UNPORTABLE]
)
def test_what_cannot_be_sent_to_workers_is_refused(origin, options, must_contain):
    with pytest.raises(UserError) as caught:
        EnvSource.of(origin, options).portable()
    assert must_contain in str(caught.value) and "pass an importable 'module:function'" in str(caught.value)


def test_what_is_defined_in_main_is_not_sent(monkeypatch):  # 34
    monkeypatch.setattr(envs.walk, "__module__", "__main__")
    with pytest.raises(UserError, match="defined in __main__"):
        EnvSource.of(envs.walk).portable()


CHANGED = {"sutton_barto_reward": True, "max_episode_steps": 7}


@pytest.mark.parametrize(
    ("origin", "name", "options"),
    [
        ("CartPole-v1", "CartPole-v1", CHANGED),
        (envs.walk, "own_envs:walk", {}),
        (envs.Walk, "own_envs:Walk", {}),
    ],
)
def test_what_can_be_sent_makes_the_same_environment(origin, name, options):
    ours = EnvSource.of(origin, options)
    sent = ours.portable()
    assert (sent.name, sent.options, sent.make) == (name, options, None)
    assert describe(ours, EnvLimits()).spec == describe(sent, EnvLimits()).spec
    played, again = (play(CheckedEnv(each, EnvLimits())) for each in (ours, sent))
    assert [reward for _, reward in played] == [reward for _, reward in again]


def test_what_was_made_to_be_looked_at_is_closed():
    made = []

    class Closable(envs.Walk):
        def __init__(self):
            super().__init__()
            made.append(self)
            self.closed = False

        def close(self):
            self.closed = True

    describe(EnvSource.of(Closable), EnvLimits())
    assert [env.closed for env in made] == [True]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.Discrete(3, start=1),
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        spaces.MultiBinary((2, 2)),
        spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf])),
        spaces.Box(0, 255, (2, 3), np.int64),
        envs.Tanks.observation_space,
    ],
    ids=str,
)
def test_a_space_comes_back_from_its_record(space):
    """As a saved model keeps it."""
    restored = space_records.restore(json.loads(json.dumps(space_records.record(space))))
    assert restored == space and str(restored) == str(space)  # Which tells the order of a Dict, too.


def test_a_live_environment_stays_open():
    class Closable(envs.Walk):
        closed = False

        def close(self):
            self.closed = True

    env = Closable()
    checked = CheckedEnv(EnvSource.of(env), EnvLimits())
    checked.close()
    assert not env.closed
    owned = CheckedEnv(EnvSource.of(lambda: env), EnvLimits())
    owned.close()
    assert env.closed


@pytest.mark.parametrize(
    ("name", "observations", "actions", "horizon", "threshold"),
    [
        (
            "CartPole-v1",
            ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
            ("push left", "push right"),
            500,
            475.0,
        ),
        ("Pendulum-v1", ("cos angle", "sin angle", "angular velocity"), ("torque",), 200, None),
        ("MountainCarContinuous-v0", ("position", "velocity"), ("force",), 999, 90.0),
        ("own_envs:Named", ("time", "place", "one"), ("back", "forth"), 1000, None),
        ("own_envs:Misnamed", ("obs 0", "obs 1", "obs 2"), ("action 0", "action 1"), 1000, None),
        ("own_envs:Walk", ("obs 0", "obs 1", "obs 2"), ("action 0", "action 1"), 1000, None),
    ],
)
def test_what_the_learner_is_told(name, observations, actions, horizon, threshold):
    task = describe(EnvSource(name), EnvLimits())
    spec = task.spec
    assert (spec.observation_names, spec.action_names, spec.horizon) == (observations, actions, horizon)
    assert task.threshold == threshold
    assert spec.continuous == (actions in (("torque",), ("force",)))


def test_parts_are_named_by_their_keys():
    spec = describe(EnvSource("own_envs:Tanks"), EnvLimits()).spec
    joint, levels, modes = "arm.joint", ("tank[0]", "tank[1]"), ("mode is 1", "mode is 2", "mode is 3")
    assert spec.observation_names == (*levels, "hour", joint, "arm.grip[0]", "arm.grip[1]", *modes)
    assert spec.observation_low == (0, 0, 0, -1, 0, 0, 0, 0, 0) and spec.observation_high == (
        10,
        10,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
    )
    assert not spec.numbered and not spec.continuous


def test_parts_with_one_name_are_refused():
    space = spaces.Dict({"a.b": spaces.Box(0, 1, (1,)), "a": spaces.Dict(b=spaces.Box(0, 1, (1,)))})
    with pytest.raises(UserError, match="^observation_space: two parts of Dict have the same name .got a.b."):
        describe(source(envs.Spaces, observation_space=space), EnvLimits())
    named = source(envs.OddlyTold, observation_space=space, observation_names={"a.b": "left", "a": {"b": "right"}})
    assert describe(named, EnvLimits()).spec.observation_names == ("right", "left")  # Sorted by key.


PARTS = spaces.Dict(
    {
        "tank": spaces.Box(0, 1, (2,)),
        "flow": spaces.Box(0, 1, ()),
        "mode": spaces.Discrete(2),
        "gears": spaces.MultiDiscrete([2, 1]),
        "arm": spaces.Dict(grip=spaces.MultiBinary(1)),
    }
)
BY_KEY = ("arm.grip", "flow", "gears[0] is 0", "gears[0] is 1", "gears[1] is 0", "mode is 0", "mode is 1")
BY_KEY += ("tank[0]", "tank[1]")
FORM = "{'arm': {'grip': 'NAME'}, 'flow': 'NAME', 'gears': ['NAME', ...], 'mode': 'NAME', ...}"
# (what the environment says, names that are not those of the keys by their number, what the user hears)
TOLD_PARTS = [
    ({"flow": "inflow", "tank": ["upper level", "lower level"]}, {1: "inflow", 7: "upper level", 8: "lower level"}, ()),
    ({"tank": "level", "mode": ["day", "night"]}, {7: "level[0]", 8: "level[1]", 5: "day", 6: "night"}, ()),
    (
        {"mode": "time", "gears": ["a", "b"]},
        {5: "time is 0", 6: "time is 1"} | dict(zip((2, 3, 4), ("a is 0", "a is 1", "b is 0"))),
        (),
    ),
    ({"arm": {"grip": "hand"}}, {0: "hand"}, ()),
    (
        tuple("abcdefghi"),
        {},
        (
            f"env: observation_names: not used, because they do not say which part of Dict each belongs to; give them by key: {FORM}",
        ),
    ),
    (
        {"arm": ["hand"]},
        {},
        (
            "env: observation_names['arm']: not used, because they do not say which part of Dict each belongs to; give them by key: {'grip': 'NAME'}",
        ),
    ),
    (
        {"tank": ["a", "b", "c"], "flow": "inflow"},
        {1: "inflow"},
        ("env: observation_names['tank']: 3 names for 2 observations; not used",),
    ),
    (
        {"tnak": "level"},
        {},
        ("env: observation_names: 'tnak' is no key of the observations; their keys are arm, flow, gears, mode, tank",),
    ),
    ({"flow": 5}, {}, ("env: observation_names['flow']: must be 1 name; not used",)),
    ({"flow": " "}, {}, ("env: observation_names['flow']: must be 1 name; not used",)),
]


@pytest.mark.parametrize(("told", "named", "remarks"), TOLD_PARTS)
def test_parts_take_their_names_by_key(told, named, remarks):
    task = describe(source(envs.OddlyTold, observation_space=PARTS, observation_names=told), EnvLimits())
    assert task.spec.observation_names == tuple(named.get(i, name) for i, name in enumerate(BY_KEY))
    assert task.notes == remarks


@pytest.mark.parametrize(
    ("told", "remark"),
    [
        ({"observation_names": ["time", "place"]}, "env: observation_names: 2 names for 3 observations; not used"),
        ({"observation_names": "time"}, "env: observation_names: 1 name for 3 observations; not used"),
        ({"observation_names": ["a", "b", "b"]}, "env: observation_names: must be 3 different names; not used"),
        ({"action_names": ["back", "stay", "forth"]}, "env: action_names: 3 names for 2 actions; not used"),
        ({"metadata": {"action_names": ["on"]}}, "env: action_names: 1 name for 2 actions; not used"),
        ({"action_names": ["back"], "metadata": {"action_names": ["back", "forth"]}}, None),
    ],
)
def test_names_that_do_not_fit_are_told(told, remark):
    assert describe(source(envs.OddlyTold, **told), EnvLimits()).notes == (() if remark is None else (remark,))


# (id, space, what the environment says, names of its actions)
COMBINED = [
    ("numbers", spaces.MultiDiscrete([2, 1], start=[1, 0]), None, ("action (1, 0)", "action (2, 0)")),
    ("switches", spaces.MultiBinary(1), None, ("action (0)", "action (1)")),
    ("values", spaces.MultiDiscrete([1, 2]), [["left"], ["hold", "fire"]], ("left + hold", "left + fire")),
    (
        "parts",
        spaces.MultiDiscrete([1, 3]),
        ["pump", "gear"],
        ("pump 0 + gear 0", "pump 0 + gear 1", "pump 0 + gear 2"),
    ),
    ("named switches", spaces.MultiBinary(2), ["left", "fire"], ("nothing", "fire", "left", "left + fire")),
    ("each", spaces.MultiDiscrete([2, 1]), ["on", "off"], ("on", "off")),
    ("too few", spaces.MultiDiscrete([2, 1]), [["on"], ["off"]], ("action (0, 0)", "action (1, 0)")),
    ("not different", spaces.MultiDiscrete([2, 1]), [["on", "on"], ["off"]], ("action (0, 0)", "action (1, 0)")),
    ("long", spaces.MultiBinary(1), ["x" * 201], ("action (0)", "action (1)")),
    ("one too many, twice", spaces.Discrete(2), ["a", "a", "b"], ("action 0", "action 1")),
]


@pytest.mark.parametrize(
    ("space", "told", "names"), [case[1:] for case in COMBINED], ids=[case[0] for case in COMBINED]
)
def test_combinations_are_named(space, told, names):
    said = {} if told is None else {"action_names": told}
    assert describe(source(envs.OddlyTold, action_space=space, **said), EnvLimits()).spec.action_names == names


@pytest.mark.parametrize(
    ("wrappers", "remarks"),
    [
        ((), ()),
        ((gymnasium.wrappers.NormalizeObservation,), ("NormalizeObservation: its numbers drift",)),
        ((gymnasium.wrappers.NormalizeReward,), ("NormalizeReward: its numbers drift",)),
        (
            (
                gymnasium.wrappers.NormalizeReward,
                gymnasium.wrappers.NormalizeObservation,
                gymnasium.wrappers.OrderEnforcing,
            ),
            ("NormalizeObservation: ", "NormalizeReward: "),
        ),
    ],
    ids=["none", "observations", "rewards", "both, within another"],
)
def test_numbers_that_drift_are_told(wrappers, remarks):
    env = functools.reduce(lambda inner, wrapper: wrapper(inner), wrappers, envs.Walk())
    task = describe(EnvSource.of(env), EnvLimits())
    assert task.spec.normalized == (gymnasium.wrappers.NormalizeObservation in wrappers)
    assert len(task.notes) == len(remarks) and all(map(str.startswith, task.notes, remarks))
    restored = restore(json.loads(json.dumps(task.record())))
    assert restored.spec == task.spec and restored.notes == ()


@pytest.mark.parametrize("names", [5, {"a"}, ["a", "a", "b"], ["a", "b\x1b", "c"], ["x" * 201, "y", "z"]])
def test_names_that_are_none_are_not_taken(names):
    for told in ({"observation_names": names}, {"metadata": names}, {"metadata": {"observation_names": names}}):
        spec = describe(source(envs.OddlyTold, **told), EnvLimits()).spec
        assert spec.observation_names == ("obs 0", "obs 1", "obs 2")


def test_names_are_one_line():
    task = describe(source(envs.OddlyTold, action_names=["to\nthe left", " right "]), EnvLimits())
    assert task.spec.action_names == ("to the left", "right")


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, "x", np.arange(2), float("nan")])
def test_a_time_limit_that_is_no_count_is_refused(limit):
    with pytest.raises(UserError, match="^env: max_episode_steps must be an integer from 1 .got "):
        CheckedEnv(source(envs.OddlyTold, max_episode_steps=limit), EnvLimits())


@pytest.mark.parametrize("threshold", ["x", float("nan"), float("inf"), 10**400, np.arange(2)], ids="abcde")
def test_a_threshold_that_is_no_number_is_refused(threshold):
    with pytest.raises(UserError, match="^env: reward_threshold must be a finite number .got "):
        describe(source(envs.OddlyTold, reward_threshold=threshold), EnvLimits())


def test_the_last_action_fits_into_its_dtype():
    space = spaces.Discrete(2, start=2**63 - 1)
    with pytest.raises(UserError, match="^action_space: the last action does not fit into int64"):
        space_records.check_spaces(spaces.Box(0, 1, (1,)), space)
    space_records.check_spaces(spaces.Box(0, 1, (1,)), spaces.Discrete(2, start=2**63 - 2))


def test_cells_of_a_grid_are_named():
    names = describe(EnvSource("CliffWalking-v1"), EnvLimits()).spec.observation_names
    assert (len(names), names[0], names[-1]) == (48, "row 0 column 0", "row 3 column 11")


CONTROL = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"]


@pytest.mark.parametrize("gymnasium_id", [*CONTROL, "FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_known_names_fit_the_environments(gymnasium_id):
    spec = describe(EnvSource(gymnasium_id), EnvLimits()).spec
    assert not any(name.startswith(("obs ", "action ")) for name in spec.observation_names + spec.action_names)


def test_a_failure_can_be_kept_and_told():
    failed = Failed(EPISODE, "env.step", "reward must be a number", "None", 2, [0, 1], "")
    line = str(failure(failed, EnvSource("X-v0"), "run/failure.json"))
    assert line.endswith("asap check X-v0 --replay run/failure.json") and isinstance(
        failure(failed, EnvSource("X-v0")), RunError
    )


def test_the_cure_of_a_failure_resets_with_the_seed_of_its_episode():
    """Which is not that of the run."""
    episode = EpisodeId(3, TRAINING, 12)
    line = str(failure(Failed(episode, "env.step", "reward is nan", "", 2, [], ""), EnvSource("X-v0")))
    assert line.endswith(f"asap check X-v0 --seed {episode.reset_seed}") and episode.reset_seed != 3
    assert f"at episode 12 step 2 (seed {episode.reset_seed})" in line


def test_what_is_local_to_a_script_is_not_named_to_a_command():
    """No command could import it: the seed of the reset shows the episode again."""

    class Local(envs.Walk): ...

    failed = Failed(EPISODE, "env.step", "reward is nan", "", 2, [], "")
    local = [
        EnvSource.of(Local),
        EnvSource.of(lambda: envs.Walk()),
        EnvSource.of(Local()),
        EnvSource("__main__:Env", {}, envs.Walk),
    ]
    for source in local:
        line = str(failure(failed, source))
        assert line.endswith(f"; the episode begins with env.reset(seed={EPISODE.reset_seed})") and "asap" not in line
    assert "asap check own_envs:Walk --seed" in str(failure(failed, EnvSource.of(envs.Walk)))


def test_recordings_come_back_from_their_file(tmp_path):
    path = tmp_path / "failure ü.json"
    recording = Recording("X-v0", {"a": 1}, EnvLimits()._asdict(), 123, [[0.5], [1.0]], "env.step: reward is nan")
    recording.save(path)
    assert Recording.load(path) == recording
    changed = [recording._replace(seed="1"), recording._replace(rules={"a": 1})]
    for text in ["", "{}", "[1]", *(json.dumps(each._asdict()) for each in changed)]:
        path.write_text(text)
        with pytest.raises(UserError, match="--replay"):
            Recording.load(path)
    with pytest.raises(UserError, match="--replay"):
        Recording.load(tmp_path / "none.json")
