"""The striker tasks: who does what, when a game ends, what it pays; and the scoring rates of the real programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.errors import UserError
from asap.base.keys import fold, root
from asap.envs import catalog
from asap.envs.controllers import find_controller, shoot_within
from asap.envs.core import CompiledTasks
from asap.envs.soccer import half_field, physics, striker
from asap.envs.soccer.half_field import (
    CAPTURED,
    GOAL,
    IN_GAME,
    OUT_OF_BOUNDS,
    OUT_OF_TIME,
    Match,
    in_metres,
    normalised,
)
from asap.envs.soccer.opponents import defender_home, goalkeeper_place
from asap.envs.soccer.physics import Ball, World, rested
from asap.envs.soccer.prediction import Meeting, Runner, ball_after, idle, meet
from asap.envs.soccer.vectors import Vector
from asap.experience.episode_logs import play_logged


def at(x: float, y: float) -> Vector:
    return Vector(jnp.float32(x), jnp.float32(y))


def world(ball=(20.0, 0.0), velocity=(0.0, 0.0), me=(10.0, 0.0), keeper=(50.0, 0.0), *others) -> World:
    players = tuple(rested(at(*place), jnp.float32(0)) for place in (me, keeper, *others))
    return World(Ball(at(*ball), at(*velocity)), players)


def match(now: World, **memory) -> Match:
    zero = jnp.int32(0)
    return Match(now, zero, zero, jnp.bool_(False), zero)._replace(**memory)


def opponents(now: World) -> tuple[striker.Opponent, ...]:
    return tuple(striker.Opponent(p.position, Runner.of(p), i == 0) for i, p in enumerate(now.players[1:]))


act = jax.jit(lambda action, now: striker.act(action, now.players[0], now.ball, opponents(now)))


# ---- Players --------------------------------------------------------------------------------------------------------


def test_without_the_ball_all_three_actions_move_to_it():
    commands = [act(jnp.int32(action), world()) for action in (striker.MOVE, striker.DRIBBLE, striker.SHOOT)]
    assert commands[0].kind == physics.DASH and float(commands[0].power) == 100.0
    assert all(jax.tree.leaves(command) == jax.tree.leaves(commands[0]) for command in commands)
    behind = act(jnp.int32(striker.MOVE), world(ball=(0.0, 0.0)))
    assert behind.kind == physics.TURN and abs(float(behind.angle)) == pytest.approx(np.pi, abs=1e-3)


def test_a_shot_leaves_the_goalkeeper_aside():
    """The ball is on the axis, the goalkeeper stands above it: the shot goes below."""
    now = world(ball=(42.6, 0.0), me=(42.0, 0.0), keeper=(50.0, 3.0))
    command = act(jnp.int32(striker.SHOOT), now)
    assert command.kind == physics.KICK and float(command.power) > 95
    assert np.degrees(float(command.angle)) < -10


@pytest.mark.parametrize("away, spared", [(7.5, 0.915), (5.0, 0.81)])
def test_a_shot_past_a_goalkeeper_in_the_middle_goes_to_a_corner(away, spared):
    """The posts are 7.01 m from the middle; 0.6 m and 4.2 cm per metre are spared of that."""
    now = world(ball=(52.5 - away, 0.0), me=(51.9 - away, 0.0), keeper=(51.5, 0.0))
    angle = abs(float(act(jnp.int32(striker.SHOOT), now).angle))
    assert angle == pytest.approx(np.arctan2(7.01 - spared, away), rel=1e-3)


def test_dribbling_goes_ahead_and_stays_within_reach():
    now = world(ball=(20.6, 0.0), me=(20.0, 0.0))
    command = act(jnp.int32(striker.DRIBBLE), now)
    assert command.kind == physics.KICK and abs(np.degrees(float(command.angle))) < 1
    # Four dashes from rest make 3.35 m, and the ball lies 0.525 m ahead then: 3.275 m from where it is.
    after = physics.step(now, (command, idle()), physics.no_noise(2))
    assert float(ball_after(after.ball, 4.0).x) == pytest.approx(20.0 + 3.35 + 0.525, abs=0.05)


def test_a_rolling_ball_is_met_where_it_will_be():
    now = world(ball=(20.0, 5.0), velocity=(0.5, 0.0), me=(25.0, 0.0))
    meeting = meet(Runner.of(now.players[0]), now.ball, 0.8)
    assert 3 < float(meeting.cycles) < 9
    assert float(meeting.point.x) == pytest.approx(float(ball_after(now.ball, meeting.cycles).x), abs=0.05)


def test_the_goalkeeper_stands_between_the_ball_and_its_goal():
    now = Meeting(jnp.float32(0), at(0, 0))
    place = goalkeeper_place(Ball(at(30.0, 10.0), at(0, 0)), now)
    assert float(place.x) == pytest.approx(49.8) and float(place.y) == pytest.approx(10 * 9.7 / 29.5, abs=1e-4)
    assert float(goalkeeper_place(Ball(at(50.0, -20.0), at(0, 0)), now).y) == pytest.approx(-7.01)
    homes = [defender_home(Ball(at(30.0, 0.0), at(0, 0)), side) for side in (-1.0, 1.0)]
    assert float(homes[0].y) == -float(homes[1].y) and float(homes[0].x) > 30


# ---- The referee ----------------------------------------------------------------------------------------------------


def status(before: Match, now: World) -> int:
    return int(half_field._refereed(before, now).status)


def test_a_goal_is_a_ball_that_crosses_the_line_between_the_posts():
    before = match(world(ball=(51.0, 6.0)))
    assert status(before, world(ball=(53.0, 6.5))) == GOAL
    assert status(before, world(ball=(52.55, 6.5))) == IN_GAME  # Not yet all of it.
    assert status(before, world(ball=(53.0, 9.0))) == IN_GAME  # Wide; out in the next cycle.


def test_a_ball_is_out_one_cycle_late():
    now = half_field._refereed(match(world(ball=(20.0, 33.9))), world(ball=(20.0, 34.2)))
    assert int(now.status) == IN_GAME and bool(now.was_out)
    assert status(now, world(ball=(20.0, 34.5))) == OUT_OF_BOUNDS


def test_two_cycles_at_the_ball_capture_it_and_the_goalkeeper_needs_one():
    near = world((40.0, 0.0), (0.0, 0.0), (30.0, 0.0), (50.0, 0.0), (41.0, 0.0))
    first = half_field._refereed(match(near), near)
    assert int(first.status) == IN_GAME and int(first.take_time) == 1
    assert status(first, near) == CAPTURED
    alone = world((40.0, 0.0), (0.0, 0.0), (39.5, 0.0), (50.0, 0.0), (45.0, 0.0))
    assert int(half_field._refereed(first, alone).take_time) == 0  # The striker has it again.
    assert status(match(near), world(ball=(49.5, 0.0), me=(40.0, 0.0))) == CAPTURED


def test_nobody_at_the_ball_for_a_hundred_cycles_ends_the_game():
    assert status(match(world(), untouched=jnp.int32(99)), world()) == IN_GAME
    assert status(match(world(), untouched=jnp.int32(100)), world()) == OUT_OF_TIME


# ---- The tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number, size", [(1, 8), (2, 10), (3, 12)])
def test_games_start_as_in_the_real_program(number, size):
    named = catalog.find(f"striker-r{number}")
    starts = jax.jit(jax.vmap(lambda i: named.env.reset(fold(root(0), i), named.task)))(jnp.arange(2000))
    ball, me = starts.world.ball.position, starts.world.players[0].position
    assert 0 <= float(ball.x.min()) and float(ball.x.max()) <= 10.5 and float(jnp.abs(ball.y).max()) <= 27.2
    assert -0.1001 <= float(me.x.min()) and float(jnp.abs(me.y).max()) <= 27.2001
    assert float(np.hypot(me.x - ball.x, me.y - ball.y).max()) < 45
    for defender in starts.world.players[2:]:
        assert 42 <= float(defender.position.x.min()) and float(defender.position.x.max()) <= 52.5
    observed = named.env.observe(jax.tree.map(lambda leaf: leaf[0], starts), named.task)
    assert observed.shape == (size,) == (len(named.env.spec.observation_names),)


def test_places_are_normalised_as_in_the_real_program():
    assert np.allclose(normalised(at(57.75, 37.4)), 1) and np.allclose(normalised(at(-5.25, -37.4)), -1)
    assert np.allclose(normalised(at(99.0, 0.0)).x, 1)
    assert np.allclose(in_metres(normalised(at(12.0, -7.0))), (12.0, -7.0), atol=1e-4)


def test_kicks_pay_by_where_they_are_given():
    pay = half_field.Rewards()
    inside, outside, yes = Ball(at(45.0, 0.0), at(0, 0)), Ball(at(20.0, 0.0), at(0, 0)), jnp.bool_(True)
    paid = {
        (action, place): float(half_field._kick_reward(ball, jnp.int32(action), yes))
        for action in (striker.MOVE, striker.DRIBBLE, striker.SHOOT)
        for place, ball in (("in", inside), ("out", outside))
    }
    assert (
        paid[striker.SHOOT, "in"] > 0 > paid[striker.SHOOT, "out"]
        and paid[striker.DRIBBLE, "out"] > 0 > paid[striker.DRIBBLE, "in"]
    )
    assert paid[striker.MOVE, "in"] == paid[striker.MOVE, "out"] == 0
    assert float(half_field._kick_reward(inside, jnp.int32(striker.SHOOT), ~yes)) == 0
    assert pay.goal > 0 > max(pay.captured, pay.out_of_bounds, pay.out_of_time)


def test_without_the_ball_all_actions_are_the_same_and_decide_nothing(compiled):
    named = catalog.find("striker-r1")
    step = compiled(lambda state, action: named.env.step(root(3), state, action, named.task))
    for ball, decides in (((20.0, 5.0), False), ((25.5, 0.0), True)):
        state = match(world(ball=ball, me=(25.0, 0.0)))
        assert bool(named.env.decides(state)) is decides
        steps = [step(state, jnp.int32(action)) for action in (striker.MOVE, striker.DRIBBLE, striker.SHOOT)]
        same = [jax.tree.all(jax.tree.map(jnp.array_equal, steps[0], other)) for other in steps[1:]]
        assert same == [not decides] * 2


@pytest.fixture(scope="module")
def goals(compiled):
    """Goals per episode of a striker that shoots within a distance, on R1 or on a task of its family."""
    named = catalog.find("striker-r1")

    @compiled
    def play(distance, task):
        tasks = CompiledTasks.of(named.env, {"striker-r1": task})
        return play_logged(tasks, shoot_within(distance), root(0), jnp.arange(400)).success.mean()

    return lambda distance, **changes: float(play(jnp.float32(distance), named.task._replace(**changes)))


def test_strikers_score_as_the_real_ones_do(goals):
    """The real programs: 0.93 from 12 m, 0.49 from 18 m, 0.21 without shots, 0.00 with nothing else; 400 games here."""
    from_12, from_18, never, always = (goals(distance) for distance in (12.0, 18.0, 0.0, np.inf))
    assert from_12 > 0.88 and 0.27 < from_18 < 0.6 and never < 0.42 and always < 0.17


def test_a_family_of_tasks_shares_one_program(goals):
    """What may differ between tasks is data: a slower goalkeeper is beaten more often from far."""
    assert goals(22.0, goalkeeper_speed=np.float32(0.3)) > goals(22.0) + 0.15


def test_strikers_are_found_by_name():
    task = catalog.find("striker-r1")
    near, far = (np.asarray(task.env.observe(match(world(ball=(x, 0.0))), task.task)) for x in (45.0, 30.0))
    for name, place, action in (
        ("dist:12", near, "Shoot"),
        ("dist:12", far, "Dribble"),
        ("always-dribble", near, "Dribble"),
        ("always-shoot", far, "Shoot"),
    ):
        chances = find_controller(task, name).probabilities(jnp.asarray(place))
        assert task.env.spec.action_names[int(chances.argmax())] == action and float(chances.sum()) == 1
    for wrong in ("dist:", "dist:x", "dist:-3", "dist:nan", "twelve"):
        with pytest.raises(UserError, match="--policy"):
            find_controller(task, wrong)


def test_opponents_see_the_ball_from_where_they_are(monkeypatch):
    """The striker is at the ball; the goalkeeper, 30 m away, errs by up to a tenth of that, here sideways."""
    seen, goalkeeper = [], half_field.opponents.goalkeeper

    def looking(keeper, ball, *rest):
        seen.append(ball.position)
        return goalkeeper(keeper, ball, *rest)

    monkeypatch.setattr(half_field.opponents, "goalkeeper", looking)
    env, task = half_field.Striker(0), half_field.standard_task()
    match = env.reset(root(0), task)._replace(world=world(me=(20.0, 0.0)))
    sideways = physics.Polar(jnp.float32(1), jnp.float32(0.5))
    dice = jax.tree.map(jnp.zeros_like, env.noise(root(0)))._replace(ball_sight=(sideways,))
    env.transition(dice, match, jnp.int32(0), task)
    np.testing.assert_allclose([seen[0].x, seen[0].y], [20, 3], atol=1e-4)


def test_the_descriptor_of_the_standard_task_by_hand():
    """A goalkeeper at 0.97 of its speed; the middle of the box for the ball is 5.25 m into the half and in the
    middle."""
    found = half_field.Striker(0).descriptor(half_field.standard_task())
    np.testing.assert_allclose(found, [0.94, 10.5 / 31.5 - 1, 0.0], atol=1e-6)
