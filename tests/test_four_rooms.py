"""Four rooms is the classic map of 104 cells, and its two kinds of slip are what their names say; its experiment compares."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.envs.four_rooms import (
    AFTER_MOVE,
    CELLS,
    FIRST_GOAL,
    INSTEAD_OF_MOVE,
    LOWER_RIGHT,
    MOVES,
    FourRooms,
    FourRoomsTask,
    four_rooms,
)
from asap.paper import four_rooms as experiment
from asap.paper.laboratory import Laboratory
from asap.rivals.goal_change import Recovery

UP, DOWN, LEFT, RIGHT = range(4)
SLIPS_NOW, STAYS = 0.3, 0.4  # Below and above one third.


def cell(row, column):
    return CELLS.index((row, column))


def after(slip, at, action, chance, which, goal=FIRST_GOAL):
    noise = jnp.float32(chance), jnp.float32(which)
    step = FourRooms(slip).transition(noise, jnp.int32(at), jnp.int32(action), FourRoomsTask(jnp.int32(goal)))
    return CELLS[int(step.state)], float(step.reward), bool(step.terminated), bool(step.success)


def test_the_map():
    assert len(CELLS) == 104 and tuple(MOVES) == ("up", "down", "left", "right")
    assert FIRST_GOAL == 62 and CELLS[62] == (7, 9)
    doors = {(3, 6), (10, 6), (6, 2), (7, 9)}
    assert doors <= set(CELLS) and (6, 3) not in CELLS and (6, 6) not in CELLS
    assert [CELLS[i] for i in LOWER_RIGHT] == [(r, c) for r in range(8, 12) for c in range(7, 12)]


@pytest.mark.parametrize("slip", [AFTER_MOVE, INSTEAD_OF_MOVE])
def test_moves_without_a_slip(slip):
    place = cell(2, 2)
    for action, there in {UP: (1, 2), DOWN: (3, 2), LEFT: (2, 1), RIGHT: (2, 3)}.items():
        assert after(slip, place, action, STAYS, 0.9) == (there, 0.0, False, False)
    assert after(slip, cell(1, 1), UP, STAYS, 0.0)[0] == (1, 1)
    assert after(slip, cell(3, 5), RIGHT, STAYS, 0.0)[0] == (3, 6)  # Through the door.
    assert after(slip, cell(6, 9), DOWN, STAYS, 0.0) == ((7, 9), 1.0, True, True)


def test_a_slip_after_a_move_is_one_more_step():
    # From (2, 2) up to (1, 2), at the upper wall: next to it are (2, 2), (1, 1) and (1, 3), in the order of the moves.
    found = [after(AFTER_MOVE, cell(2, 2), UP, SLIPS_NOW, which)[0] for which in (0.1, 0.5, 0.9)]
    assert found == [(2, 2), (1, 1), (1, 3)]
    assert after(AFTER_MOVE, cell(1, 1), UP, SLIPS_NOW, 0.9)[0] == (1, 1)  # Bumping suppresses it.
    assert not after(AFTER_MOVE, cell(6, 9), DOWN, SLIPS_NOW, 0.1)[2]  # Over the goal, and off again.
    assert after(AFTER_MOVE, cell(5, 9), DOWN, SLIPS_NOW, 0.3)[:3] == ((7, 9), 1.0, True)  # Slipped into it.


def test_a_slip_in_place_of_a_move_forgets_the_action():
    for action in range(4):  # Also of those that bump.
        found = [after(INSTEAD_OF_MOVE, cell(1, 1), action, SLIPS_NOW, which)[0] for which in (0.2, 0.7)]
        assert found == [(2, 1), (1, 2)]


@pytest.mark.parametrize("slip", [AFTER_MOVE, INSTEAD_OF_MOVE])
def test_a_third_of_the_steps_slip(slip):
    env, task = FourRooms(slip), FourRoomsTask(jnp.int32(FIRST_GOAL))
    keys = jax.vmap(lambda i: fold(root(5), i))(jnp.arange(6000))
    step = jax.vmap(lambda key: env.step(key, jnp.int32(cell(3, 3)), jnp.int32(RIGHT), task).state)
    cells, counts = np.unique(np.asarray(step(keys)), return_counts=True)
    there = counts[cells == cell(3, 4)].sum() / 6000
    # After the move nobody is where the move led to who slipped; in place of it, a quarter of those who slip is there.
    assert there == pytest.approx(2 / 3 if slip == AFTER_MOVE else 3 / 4, abs=0.02)


def test_episodes_start_anywhere_but_at_the_goal():
    env, keys = FourRooms(), jax.vmap(lambda i: fold(root(6), i))(jnp.arange(4000))
    for goal in (0, FIRST_GOAL, 103):
        starts = np.asarray(jax.vmap(lambda key: env.reset(key, FourRoomsTask(jnp.int32(goal))))(keys))
        assert set(starts.tolist()) == set(range(104)) - {goal}


def test_what_is_seen():
    task = four_rooms(goal=cell(11, 1))
    assert task.descriptor == (1.0, -1.0) and task.spec.numbered and task.spec.horizon == 1000
    x = np.asarray(task.env.observe(jnp.int32(7), task.task))
    assert x.sum() == 1 and x[7] == 1 and len(x) == len(task.spec.observation_names)


def test_the_experiment_compares_who_recovers_sooner():
    def lengths(first):
        steps = np.full((6, 400), 20) + np.arange(6)[:, None]
        steps[:, 200:250] = first + np.arange(6)[:, None]
        return steps

    names = (*experiment.ARMS, *experiment.RIVALS)
    found = {name: lengths(60 if name in experiment.ARMS else 90) for name in names}
    found[experiment.KEEPS] = lengths(300)
    recoveries = {name: Recovery.of(steps) for name, steps in found.items()}
    claims = experiment.recoveries(recoveries, AFTER_MOVE)
    assert [claim.passed for claim in claims] == [True] * 4 + [False, True]
    assert claims[0].ours == "62 steps per episode against 92" and "22 before, 62, 22 and 22 after" in claims[0].note
    figure = experiment.drawn(found, "a title")
    assert [text.get_text() for text in figure.axes[0].texts] == list(names)
    assert figure.axes[0].get_yscale() == "log" and len(figure.axes[0].lines) == len(names) + 1


def test_recorded_runs_are_kept(tmp_path, monkeypatch):
    laboratory = Laboratory(tmp_path, seeds=2)
    lengths = experiment.recorded(laboratory, experiment.OPTION_CRITIC, AFTER_MOVE, 3)
    assert lengths.shape == (2, 6) and lengths.min() > 0
    monkeypatch.setattr(experiment, "goal_change", None)
    assert (experiment.recorded(laboratory, experiment.OPTION_CRITIC, AFTER_MOVE, 3) == lengths).all()
    with pytest.raises(TypeError):
        experiment.recorded(laboratory, experiment.OPTION_CRITIC, AFTER_MOVE, 4)


def test_a_run_of_asap_does_not_depend_on_the_others(tmp_path):
    small = Laboratory(tmp_path / "one", seeds=1, seed=1), Laboratory(tmp_path / "two", seeds=2)
    alone, both = (experiment.recorded(each, experiment.LEARNS_ON, AFTER_MOVE, 2) for each in small)
    assert (alone[0] == both[1]).all() and (both[0] != both[1]).any()


def test_a_stop_keeps_the_runs_that_are_done(tmp_path, monkeypatch):
    laboratory = Laboratory(tmp_path, seeds=2)
    learn, learned = experiment.asap_goal_change, []

    def stopped_later(arm, slip, runs, num_episodes, heard):
        laboratory.stop.requested = signal.SIGTERM if learned else None
        learned.append(runs)
        return learn(arm, slip, runs, num_episodes, heard)

    monkeypatch.setattr(experiment, "asap_goal_change", stopped_later)
    with pytest.raises(SystemExit):
        experiment.recorded(laboratory, experiment.LEARNS_ON, AFTER_MOVE, 2)
    laboratory.stop.requested = None
    monkeypatch.setattr(experiment, "asap_goal_change", learn)
    assert learned == [range(0, 1), range(1, 2)] and len(list((tmp_path / "runs/four-rooms").iterdir())) == 1
    assert experiment.recorded(laboratory, experiment.LEARNS_ON, AFTER_MOVE, 2).shape == (2, 4)
