"""Whether the vector form of an environment is used: only where it gives the same bits as the scalar form.

Both forms play the same episodes with actions at random, to their ends, to a short time limit of their own, and to one
of ours. There are more episodes than lanes, so lanes begin anew while others run.
"""

import numpy as np

from asap.base.episodes import CHECK, EpisodeId
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import HostedSource
from asap.envs.gymnasium.vector_form import LANES, Unsuited, VectorForm
from asap.policy.host import Plan, Player
from asap.workers.episode import play_episode
from asap.workers.lanes import play_side_by_side
from asap.workers.work import Work, digest

FEWEST = 6  # Episodes that are faster side by side than one by one.
EPISODES = LANES + LANES // 2
LONGEST = 64  # Steps: environments whose episodes are long are not played to their end.
OWN_LIMIT = 8  # Steps after which both forms are asked to truncate.


def checked_form(hosted: HostedSource) -> VectorForm:
    """The vector form, if it is to be trusted; `Unsuited` otherwise."""
    form = VectorForm(hosted)
    try:
        _compare(_limited(hosted, LONGEST))
        options = {**hosted.source.options, "max_episode_steps": OWN_LIMIT}
        _compare(hosted._replace(source=hosted.source._replace(options=options)))
    except BaseException:
        form.close()
        raise
    return form


def why_not(hosted: HostedSource) -> str:
    """Why the vector form is not used, in words; empty where it is."""
    try:
        checked_form(hosted).close()
    except Unsuited as reason:
        return str(reason)
    return ""


def _limited(hosted: HostedSource, most: int) -> HostedSource:
    limits = hosted.limits
    shorter = most if limits.max_steps is None else min(most, limits.max_steps)
    return hosted._replace(limits=limits._replace(max_steps=shorter))


def _compare(hosted: HostedSource) -> None:
    """Plays the same in both forms."""
    form = VectorForm(hosted)
    try:
        ids = tuple(EpisodeId(0, CHECK, number) for number in range(EPISODES))
        plan = plan_of_chance(int(form.action_space.n))
        together = play_side_by_side(form, Player(plan), Work(0, plan, ids))
        env, player = CheckedEnv(*hosted), Player(plan)
        for theirs in together.played:
            ours = play_episode(env, player, theirs.episode, False)
            if digest(ours) != digest(theirs):
                raise Unsuited(f"its steps differ from the scalar form's (seed {theirs.episode.reset_seed})")
        env.close()
    except EnvError as error:
        raise Unsuited(f"the scalar form fails: {error.what}") from error
    finally:
        form.close()


def plan_of_chance(num_actions: int) -> Plan:
    """A policy of one skill that takes all actions alike."""
    arrays = {"beta": np.zeros((0, 1)), "alpha_beta": np.ones(()), "alpha_theta": np.ones(())}
    arrays["theta"] = np.zeros((1, num_actions, 1))
    constant = {"kind": "constant"}
    return Plan({"psi": constant, "phi": constant, "skills": "gibbs", "termination": None}, arrays)
