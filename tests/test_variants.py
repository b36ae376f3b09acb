"""Numbers of an environment can be set by name, all that follows from them follows, and nothing else can be set."""

import math
import threading

import gymnasium
import numpy as np
import pytest
from command_line import asap
from family_envs import Derived, Swapped

from asap.base.errors import UserError
from asap.envs.gymnasium.difference import difference
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.parameters import Parameter, named, parse, split_weight, varied
from asap.envs.gymnasium.task import describe
from asap.envs.resolve import parse_tasks

# ---- Equations of motion, written out by hand ---------------------------------------------------------------------


def cart_pole(state, action, gravity=9.8, masscart=1.0, masspole=0.1, length=0.5, force_mag=10.0, tau=0.02):
    """Barto, Sutton and Anderson 1983: `length` is half of the pole's."""
    x, v, angle, turn = state
    force = force_mag if action == 1 else -force_mag
    total = masscart + masspole
    push = (force + masspole * length * turn**2 * math.sin(angle)) / total
    inertia = length * (4 / 3 - masspole * math.cos(angle) ** 2 / total)
    faster = (gravity * math.sin(angle) - math.cos(angle) * push) / inertia
    onward = push - masspole * length * faster * math.cos(angle) / total
    return [x + tau * v, v + tau * onward, angle + tau * turn, turn + tau * faster]


def pendulum(state, action, g=10.0, m=1.0, l=1.0, dt=0.05):  # noqa: E741
    angle, turn = state
    turn = np.clip(turn + (3 * g / (2 * l) * math.sin(angle) + 3 / (m * l**2) * action) * dt, -8, 8)
    return [angle + turn * dt, turn]


def mountain_car(state, action, force=0.001, gravity=0.0025):
    place, speed = state
    speed = np.clip(speed + (action - 1) * force - gravity * math.cos(3 * place), -0.07, 0.07)
    return [np.clip(place + speed, -1.2, 0.6), speed]


def acrobot(
    state,
    action,
    LINK_LENGTH_1=1.0,
    LINK_MASS_1=1.0,
    LINK_MASS_2=1.0,
    LINK_COM_POS_1=0.5,
    LINK_COM_POS_2=0.5,
    LINK_MOI=1.0,
    dt=0.2,
):
    """Sutton and Barto, "the book": one step of Runge and Kutta's."""
    m1, m2, l1, c1, c2, i = LINK_MASS_1, LINK_MASS_2, LINK_LENGTH_1, LINK_COM_POS_1, LINK_COM_POS_2, LINK_MOI
    g, torque = 9.8, action - 1.0

    def slope(s):
        a, b, da, db = s
        d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * math.cos(b)) + 2 * i
        d2 = m2 * (c2**2 + l1 * c2 * math.cos(b)) + i
        phi2 = m2 * c2 * g * math.sin(a + b)
        phi1 = -m2 * l1 * c2 * math.sin(b) * (db**2 + 2 * db * da) + (m1 * c1 + m2 * l1) * g * math.sin(a) + phi2
        ddb = (torque + d2 / d1 * phi1 - m2 * l1 * c2 * da**2 * math.sin(b) - phi2) / (m2 * c2**2 + i - d2**2 / d1)
        return np.array([da, db, -(d2 * ddb + phi1) / d1, ddb])

    s = np.array(state, float)
    k1 = slope(s)
    k2 = slope(s + dt / 2 * k1)
    k3 = slope(s + dt / 2 * k2)
    return (s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(s + dt * k3))).tolist()


CASES = [
    *(
        ("CartPole-v1", cart_pole, {name: value})
        for name, value in (("gravity", 3.7), ("masscart", 0.4), ("tau", 0.01))
    ),
    *(("CartPole-v1", cart_pole, {name: value}) for name, value in (("masspole", 0.9), ("length", 1.5))),
    ("CartPole-v1", cart_pole, {"force_mag": 4, "length": 0.2, "masspole": 0.3}),
    *(("Pendulum-v1", pendulum, {name: value}) for name, value in (("g", 3.0), ("m", 2.0), ("l", 0.5), ("dt", 0.02))),
    *(("MountainCar-v0", mountain_car, {name: value}) for name, value in (("force", 0.002), ("gravity", 0.001))),
    *(("Acrobot-v1", acrobot, {f"LINK_{name}": 0.7}) for name in ("LENGTH_1", "MASS_1", "MASS_2", "MOI")),
    *(("Acrobot-v1", acrobot, {f"LINK_COM_POS_{link}": 0.3}) for link in (1, 2)),
]


@pytest.mark.parametrize(
    ("env", "moved", "values"), CASES, ids=lambda part: str(part) if isinstance(part, dict) else ""
)
def test_a_variant_moves_as_its_equations_say(env, moved, values):
    made = EnvSource(named(env, values)).build()
    original = EnvSource(env).build()
    made.reset(seed=3), original.reset(seed=3)
    at, count = made.unwrapped.state, 0
    for action in (1, 0, 1, 1, 0):
        own = np.float32([0.7 * action]) if env == "Pendulum-v1" else action
        wanted = moved(at, float(own[0]) if env == "Pendulum-v1" else action, **values)
        without = moved(at, float(own[0]) if env == "Pendulum-v1" else action)
        made.step(own)
        at = made.unwrapped.state
        np.testing.assert_allclose(at, wanted, rtol=1e-5, atol=1e-6)
        count += not np.allclose(at, without, rtol=1e-5, atol=1e-6)
    assert count >= 2  # Without a push some numbers do not count.


# ---- What follows, and what does not ------------------------------------------------------------------------------


def test_what_the_constructor_computes_follows():
    def numbers(words):
        notes = []
        env = EnvSource(f"family_envs:Derived?{words}").made(notes.append).unwrapped
        return {
            name: getattr(env, name) for name in ("width", "scale", "area", "twice", "count", "flag", "depth")
        }, notes

    assert numbers("width=3")[0]["twice"] == 2 * 3 * 2  # An attribute.
    assert numbers("scale=5")[0]["twice"] == 2 * 1 * 5  # Of the class.
    changed, notes = numbers("count=4&flag=1&depth=0.5")
    assert (changed["count"], changed["flag"], changed["depth"]) == (4, True, 0.5) and type(changed["count"]) is int
    assert all("depth" in note for note in notes)


def test_a_note_says_what_was_not_recomputed():
    notes = describe(EnvSource("family_envs:Derived?hidden=6"), EnvLimits()).notes
    assert len(notes) == 1 and notes[0].startswith("hidden was set when family_envs:Derived was made: what")
    assert describe(EnvSource("family_envs:Derived?width=6"), EnvLimits()).notes == ()


def test_classes_are_left_as_they_were():
    before = [vars(kind).copy() for kind in (Swapped, Derived)]
    EnvSource("family_envs:Derived?width=3&scale=4").build()
    with pytest.raises(UserError, match="is a flag"):
        EnvSource("family_envs:Derived?flag=2&width=3").build()
    assert [vars(kind).copy() for kind in (Swapped, Derived)] == before
    assert (Derived().area, Derived.scale) == (2.0, 2.0)


def test_others_are_made_meanwhile_as_they_are():
    """Another thread makes the same class while a variant of it is made."""
    found, begun, done = [], threading.Event(), threading.Event()

    class Slow(Derived):
        def __init__(self):
            if threading.current_thread() is threading.main_thread() and started:
                begun.set()
                done.wait(10)
            super().__init__()

    def other():
        begun.wait(10)
        found.append(Slow().width)
        done.set()

    started = []
    source = EnvSource.of(Slow)._replace(name="tests:Slow?width=3")
    from asap.envs.gymnasium.variant import settable_of

    settable_of(source)
    started.append(True)
    thread = threading.Thread(target=other)
    thread.start()
    width = source.build().unwrapped.width
    thread.join()
    assert (width, found) == (3.0, [1.0])


def test_a_factory_gives_what_its_class_takes():
    assert EnvSource("family_envs:any_order?order=-1").build().unwrapped.order == -1
    with pytest.raises(UserError, match="unexpected keyword argument 'ordre'"):
        EnvSource("family_envs:any_order?ordre=-1").build()


# ---- What cannot be set -------------------------------------------------------------------------------------------

REFUSED = {
    "step=1": "has no number of that name that can be set (got step); choose from force_mag=10",
    "lenght=1": "(got lenght); choose from length=0.5",
    "np_random=1": "(got np_random)",
    "np_random_seed=1": "(got np_random_seed)",
    "render_mode=1": "(got render_mode)",
    "kinematics_integrator=1": "(got kinematics_integrator)",
    "isopen=1": "(got isopen)",
    "__class__=1": "must be a plain public name, such as length (got __class__)",
    "_sutton_barto_reward=1": "must be a plain public name",
    "unwrapped.length=1": "must be a plain public name",
    f"{'a' * 65}=1": "must be a plain public name",
    f"{'a' * 4000}=1": "a name may have 500 characters (got 4,014)",
    "length=nan": "must be NAME=NUMBER, or NAME=LOW..HIGH (got length=nan)",
    "length=1e999": "a parameter must be finite (got inf)",
    "length=-1e308..1e308": "the range of 'length' is too wide",
    "length=2..1": "must begin with its lower end",
    "length": "must be NAME=NUMBER",
    "": "must be NAME=NUMBER, or NAME=LOW..HIGH (got nothing)",
    "length=1&length=2": "a parameter is given twice (got length)",
    "&".join(f"a{i}=1" for i in range(17)): "a name may have 16 parameters",
}


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[:30])
def test_what_is_refused_is_refused_in_one_line(words):
    before = vars(type(gymnasium.make("CartPole-v1").unwrapped)).copy()
    with pytest.raises(UserError) as refused:
        describe(EnvSource(f"CartPole-v1?{words}"), EnvLimits())
    assert str(refused.value).startswith("task: ") and REFUSED[words] in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400
    assert vars(type(gymnasium.make("CartPole-v1").unwrapped)) == before


def test_a_part_of_the_state_is_no_parameter():
    with pytest.raises(UserError, match=r"reset sets 'time' again: it is a part of the state"):
        describe(EnvSource("family_envs:Timed?time=3"), EnvLimits())
    with pytest.raises(UserError, match="has no number of that name"):
        describe(EnvSource("family_envs:Derived?fixed=3"), EnvLimits())


def test_what_is_already_made_takes_no_parameters():
    source = EnvSource.of(gymnasium.make("CartPole-v1"))
    with pytest.raises(UserError, match="an environment that is already made takes no parameters"):
        source._replace(name="CartPole-v1?length=1").build()


# ---- Names --------------------------------------------------------------------------------------------------------


def test_names_say_all_and_are_read_again():
    text = named("CartPole-v1", {"length": 0.1 + 0.2, "force_mag": (5, 15), "tau": np.float32(0.25)})
    assert text == "CartPole-v1?length=0.30000000000000004&force_mag=5..15&tau=0.25"
    assert parse(text).text == text and parse("CartPole-v1?length=1.0").text == "CartPole-v1?length=1"
    assert parse(text).parameters[1] == Parameter("force_mag", 5.0, 15.0)
    for bad in ("0.3", True and None, [1, 2], (1, 2, 3), ("1", 2)):
        with pytest.raises(UserError, match="must be a number, or two of them"):
            named("CartPole-v1", {"length": bad})


def test_vary_makes_the_product_of_lists_and_keeps_ranges_and_weights():
    words = varied(["a:b:2", "c"], ["x=1,2", "y=0..1", "z=3,4"])
    assert words[:2] == ["a:b?x=1&y=0..1&z=3:2", "a:b?x=1&y=0..1&z=4:2"] and len(words) == 8
    assert parse_tasks(words[3:5]) == (("a:b?x=2&y=0..1&z=4", "c?x=1&y=0..1&z=3"), (2.0, 1.0))
    assert split_weight("module:function") == ("module:function", "")
    with pytest.raises(UserError, match="may make 1,000 tasks"):
        varied(["a"], ["x=" + ",".join(map(str, range(1001)))])


# ---- `asap check` -------------------------------------------------------------------------------------------------


def test_check_says_whether_anything_changed(capsys, monkeypatch):
    code, out, _ = asap(["check", "CartPole-v1?length=0.30", "--episodes", "1"], capsys, monkeypatch)
    assert code == 0 and "parameters: differs from CartPole-v1 from step 1 on: length 0.3 (was 0.5)" in out
    code, out, _ = asap(["check", "MountainCar-v0?goal_velocity=0.03", "--episodes", "1"], capsys, monkeypatch)
    assert "warning: no difference from MountainCar-v0 in 200 steps: goal_velocity 0.03 (was 0)" in out
    # What only ends an episode sooner is a difference, too.
    assert difference(EnvSource("CartPole-v1?x_threshold=0.05"), EnvLimits(), 0).step > 1
    assert difference(EnvSource("CartPole-v1?length=0.5"), EnvLimits(), 0).step is None
