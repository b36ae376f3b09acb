"""Promise: episodes that are stepped side by side have the bits that they have alone, for any number of workers; and
where a vector form gives other numbers than the scalar form, the scalar form plays."""

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from asap.base.episodes import TRAINING, EpisodeId
from asap.base.errors import RunError
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.envs.gymnasium.vector_form import LANES, Unsuited
from asap.policy.host import Plan, Player
from asap.policy.lanes import LanePlayer
from asap.workers import dispatch
from asap.workers.dispatch import Dispatcher
from asap.workers.episode import play_episode
from asap.workers.failures import failure
from asap.workers.grouping import MOST, Grouping
from asap.workers.hire import InProcess, hire
from asap.workers.lanes import play_side_by_side
from asap.workers.play import Environments, nobody_watches, play_chunk
from asap.workers.pool import Pool
from asap.workers.vector_check import FEWEST, checked_form
from asap.workers.work import Work, digest

CART_POLE = HostedSource(EnvSource("CartPole-v1"), EnvLimits())
LINEAR = {"kind": "polynomial", "degree": 1, "inputs": [0, 1, 2, 3], "observations": 4}
PSI = {"psi.shift": np.full(4, 0.01), "psi.scale": np.float64([1.0, 0.5, 3.0, 1.5]), "alpha_beta": np.float64(4.0)}
BALANCES = [0.1, 0.05, 0.3, 1.0, 0.5]  # A plane of which each side has its push.


def cart(how: str = "", **limits) -> HostedSource:
    return HostedSource(EnvSource("vector_envs:VectorCart-v0", {"how": how}), EnvLimits(**limits))


def plan(kind: str = "constant") -> Plan:
    static = {"psi": LINEAR, "phi": {"kind": "constant"}, "skills": "gibbs", "termination": None}
    arrays = PSI | {"beta": np.float64([BALANCES]), "alpha_theta": np.float64(1.0)}
    arrays["theta"] = np.float64([[[3.0], [-3.0]], [[-3.0], [3.0]]])
    if kind != "constant":
        generator = np.random.default_rng(0)
        static |= {"phi": LINEAR, "region_skills": [0, 1, 1, 2]}
        arrays |= {"phi.shift": np.full(4, 0.1), "phi.scale": np.full(4, 1.3)}
        arrays |= {"beta": generator.normal(size=(2, 5)), "theta": generator.normal(size=(3, 2, 5))}
    return Plan(static, arrays)


def ids(count: int, first: int = 0) -> tuple[EpisodeId, ...]:
    return tuple(EpisodeId(3, TRAINING, first + number) for number in range(count))


def digests_alone(source: HostedSource, one: Plan, episodes: tuple[EpisodeId, ...], deterministic=False) -> list[str]:
    with closing(Environments((source,))) as environments:
        env, player = environments.of_task(0), Player(one)
        return [digest(play_episode(env, player, each, deterministic)) for each in episodes]


@pytest.mark.parametrize("kind", ["constant", "linear"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_side_by_side_and_alone_episodes_are_the_same(kind, deterministic):
    """More episodes than lanes: some begin while others run. Those of the constant kind end at the time limit."""
    source, episodes = cart(max_steps=90), ids(LANES + 5)
    with closing(checked_form(source)) as form:
        finished = play_side_by_side(form, Player(plan(kind)), Work(0, plan(kind), episodes, deterministic))
    assert [one.episode for one in finished.played] == list(episodes)
    assert [digest(one) for one in finished.played] == digests_alone(source, plan(kind), episodes, deterministic)
    is_cut = [one.length == 90 for one in finished.played]
    assert any(is_cut) if kind == "constant" else not all(is_cut)
    assert all(bool(one.notes) is cut for one, cut in zip(finished.played, is_cut))


def test_an_episode_does_not_depend_on_those_beside_it():
    """The same ones in another order, with others among them, in other lanes, and begun at other times."""
    few, many = ids(4), (*ids(40, first=100), *reversed(ids(4)))
    with closing(checked_form(CART_POLE)) as form:
        alone, among = (play_side_by_side(form, Player(plan()), Work(0, plan(), each)) for each in (few, many))
    assert [digest(one) for one in alone.played] == [digest(one) for one in among.played[:-5:-1]]


def test_sums_have_one_order():
    """1 + 1e16 - 1e16 is 0 from left to right, and 1 where the last two are added first."""
    one, x = plan(), np.ones((LANES, 4), np.float32)
    one.arrays.update({"psi.shift": np.zeros(4), "psi.scale": np.ones(4), "alpha_beta": np.float64(1.0)})
    one.arrays["beta"] = np.float64([[1.0, 1e16, -1e16, 0.0, 0.0]])
    player = Player(one)
    player.begin(ids(1)[0].choices(), deterministic=True)
    assert player.choose(x[0])[0] == 0
    assert LanePlayer(player, LANES, deterministic=True).choose(0, x)[0].tolist() == [0] * LANES


def test_any_number_of_workers_gives_the_same():
    works = [Work(number, plan("linear"), ids(FEWEST + 2, first=10 * number)) for number in range(3)]
    expected = [digests_alone(CART_POLE, work.plan, work.episodes) for work in works]
    for workers in (InProcess((CART_POLE,)), Pool((CART_POLE,), 1), Pool((CART_POLE,), 2)):
        with closing(Dispatcher(workers, failure, print)) as dispatcher:
            assert [[*map(digest, finished.played)] for finished in dispatcher.play(works)] == expected


REASONS = {
    "drifts": "its steps differ from the scalar form's",
    "rewards": "its steps differ",
    "neighbours": "its steps differ",
    "ends": "its steps differ",
    "limit": "its steps differ",
    "state": "no array `state`",
    "spaces": "spaces are others",
    "autoreset": "a lane is reset in the step after its end",
    "prints": "it prints",
    "tells": "other kinds of arrays",
}


@pytest.mark.parametrize("how, reason", REASONS.items())
def test_a_vector_form_that_differs_is_refused(how, reason):
    with pytest.raises(Unsuited, match=reason):
        checked_form(cart(how))


def test_what_has_no_vector_form_is_played_one_by_one():
    for source in (EnvSource("Acrobot-v1"), EnvSource("worker_envs:walk"), EnvSource("CartPole-v1", {"odd": 1})):
        with pytest.raises(Unsuited):
            checked_form(HostedSource(source, EnvLimits()))
    with pytest.raises(Unsuited, match="turned off"):
        checked_form(cart(vector=False))


def test_a_refusal_is_said_once_and_works_have_one_episode():
    said: list[str] = []
    events: list[dict] = []
    one, planned = plan(), ids(MOST + FEWEST)
    for source, sizes in ((cart(), [MOST, FEWEST]), (cart("drifts"), [1] * len(planned)), (cart(vector=False), None)):
        works = Grouping((source,), said.append, events.append).works([(one, each) for each in planned], False)
        assert [len(work.episodes) for work in works] == (sizes or [1] * len(planned))
        assert tuple(itertools.chain(*(work.episodes for work in works))) == planned
    assert [event["used"] for event in events] == [True, False]
    assert len(said) == 1 and said[0].startswith("the vector form of the environment is not used: its steps differ")
    few = Grouping((cart(),), said.append).works([(one, each) for each in ids(FEWEST - 1)], False)
    assert len(few) == FEWEST - 1


def test_works_are_of_one_policy():
    """Two that alternate share no work."""
    first, second = plan(), plan()
    planned = [(each, one) for each in (first, second, first) for one in ids(FEWEST)]
    works = Grouping((cart(),), print).works(planned, False)
    assert [work.plan for work in works] == [first, second, first]
    assert [work.number for work in works] == [0, 1, 2]


@pytest.mark.parametrize("how", ["fails late", "nan late"])
def test_trouble_in_a_lane_is_told_as_when_played_alone(how):
    """Vector forms name no episode. The scalar form does: that of `nan late` is well."""
    episodes = ids(FEWEST, first=8)
    with closing(Environments((cart(how),))) as environments:
        finished = play_chunk(environments, Work(0, plan(), episodes), nobody_watches)
        assert environments.vector_form(0) is None
    if how == "nan late":
        assert [*map(digest, finished.played)] == digests_alone(cart(how), plan(), episodes)
        return
    begins = [one.reset_seed for one in episodes]
    failing = next(i for i, seed in enumerate(begins) if first_place(seed) > 0.03)
    assert 0 < failing < FEWEST and len(finished.played) == failing
    assert (finished.failed.episode, finished.failed.step) == (episodes[failing], 70)
    assert len(finished.failed.actions) == 70 and "the pole broke" in finished.failed.what


def first_place(seed: int) -> float:
    env = cart().source.build()
    return float(env.reset(seed=seed)[0][0])


def test_a_failure_names_the_file_with_which_to_see_it_again(tmp_path):
    with closing(hire("0", (cart("fails late"),), tmp_path, print)) as dispatcher:
        with pytest.raises(RunError, match=r"the pole broke.* at episode \d step 70") as error:
            dispatcher.play([Work(0, plan(), ids(FEWEST))])
    (recording,) = tmp_path.glob("failed-episode-*.json")
    assert recording.name in str(error.value)


def watched(count: int) -> Iterator[list[tuple[int, int]]]:
    marks: list[tuple[int, int]] = []
    with closing(checked_form(cart())) as form:
        play_side_by_side(
            form, Player(plan("linear")), Work(0, plan("linear"), ids(count)), lambda *at: marks.append(at)
        )
    yield marks


def test_every_step_shows_another_mark():
    """Who shows nothing new is taken for hanging."""
    (marks,) = watched(LANES + 8)
    assert all(one != other for one, other in itertools.pairwise(marks))
    assert {index for index, _ in marks} <= set(range(LANES + 8)) and min(step for _, step in marks) == 0


def test_lanes_that_hang_are_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(dispatch, "LONGEST_START", 30.0)
    source = cart("hangs late")
    explain = partial(failure, source=source.source)
    with closing(Dispatcher(Pool((source,), 1), explain, print, step_timeout=1.0, retries=0)) as dispatcher:
        with pytest.raises(RunError, match="silent for 1 s"):
            dispatcher.play([Work(0, plan(), ids(FEWEST))])
