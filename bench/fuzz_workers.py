"""Fuzzing targets of what is played elsewhere: frames between driver and workers, and files of failed episodes."""

import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from fuzz_mutations import changed_bytes, changed_tree, dumps
from fuzz_watch import SAFE_IDS, Target, Wrong

from asap.base.episodes import EpisodeId, Played
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.policy.host import Plan
from asap.workers.failures import Recording, failure
from asap.workers.messages import MARK, PREFIX, BadMessage, Goodbye, Hello, Ready, Refused, decode, encode
from asap.workers.work import Failed, Finished, Work

# ---- Frames ---------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """The parts of a frame."""

    header: Any
    body: bytes


def _frame_seeds(folder: Path) -> list[Frame]:
    ids = tuple(EpisodeId(3, 0, number) for number in range(2))
    arrays = {"beta": np.ones((1, 5)), "alpha_beta": np.float32(4), "theta": np.zeros((2, 2, 1), np.float32)}
    plan = Plan(
        {"skills": "gibbs", "termination": None, "psi": {"kind": "constant"}, "phi": {"kind": "constant"}}, arrays
    )
    played = [
        Played(
            id, np.ones((3, 4), np.float32), np.zeros(2, np.int32), actions, np.ones(2, np.float32), True, None, ("x",)
        )
        for id, actions in zip(ids, (np.zeros(2, np.int32), np.ones(2, np.int32)))
    ]
    failed = Failed(ids[0], "env.step", "obs[1] is nan", "x", 3, [1, [0.5]], "Traceback ...")
    messages = [
        Hello((HostedSource(EnvSource("CartPole-v1", {"a": 1}), EnvLimits(max_steps=7)),)),
        Work(4, plan, ids, True),
        Finished(5, tuple(played)),
        Finished(6, (), failed),
        Ready({"numpy": "2"}),
        Refused("env: gone", 2),
        Goodbye(),
    ]
    return [_taken_apart(encode(message)) for message in messages]


def _taken_apart(frame: bytes) -> Frame:
    begin = PREFIX.size + PREFIX.unpack_from(frame)[1]
    return Frame(json.loads(frame[PREFIX.size : begin]), frame[begin:])


def _framed(parts: Frame) -> bytes:
    start = dumps(parts.header).encode()
    return PREFIX.pack(MARK, len(start), len(parts.body)) + start + parts.body


def _changed_frame(rng: Random, parts: Frame) -> Frame:
    if rng.random() < 0.1:
        return parts._replace(body=changed_bytes(rng, parts.body))
    return parts._replace(header=changed_tree(rng, parts.header))


def _receive(frame: bytes, folder: Path) -> None:
    """What decodes is sent on as it came, and the driver can do with it what it does with every message."""
    message = decode(frame)
    again = encode(message)
    if encode(decode(again)) != again:
        raise Wrong("another message after encode and decode")
    told, sent = _taken_apart(frame), _taken_apart(again)
    if sent.body != told.body or not _says(told.header[0], sent.header[0]):
        raise Wrong(f"{sent.header[0]} was read, {told.header[0]} was sent")
    if isinstance(message, Work):
        ids = message.episodes
    elif isinstance(message, Finished):
        ids = tuple(one.episode for one in message.played)
        if message.failed is not None:
            failure(message.failed, EnvSource("CartPole-v1"))
    else:
        ids = ()
    for id in ids:
        id.reset_seed, id.choices()
    if isinstance(message, Refused):
        message.error()


def _says(told: Any, sent: Any) -> bool:
    """Whether all that is sent was told; more keys may have been."""
    if isinstance(sent, dict) and isinstance(told, dict):
        return all(_says(told.get(key), value) for key, value in sent.items())
    if isinstance(sent, list) and isinstance(told, list):
        return len(told) == len(sent) and all(map(_says, told, sent))
    is_number = {type(told), type(sent)} <= {int, float}
    return repr(told) == repr(sent) or (is_number and told == sent)


# ---- Failed episodes ------------------------------------------------------------------------------------------------


def _replay_seeds(folder: Path) -> list[dict[str, Any]]:
    rules = EnvLimits()._asdict()
    return [
        Recording("CartPole-v1", {}, rules, 3, [0, 1, 1, 0], "env.step: reward is nan", "Traceback ...")._asdict(),
        Recording("Pendulum-v1", {"g": 9.8}, rules, 2**31 - 1, [[0.5], [-1.0]], "env.step: x")._asdict(),
    ]


def _replay(data: bytes, folder: Path) -> None:
    from asap.cli.environments import check_env

    path = folder / "failed.json"
    path.write_bytes(data)
    try:
        name = json.loads(data)["env"]
    except (ValueError, LookupError, TypeError, RecursionError):
        name = None
    check_env(name if isinstance(name, str) and name in SAFE_IDS else "CartPole-v1", {}, 1, 0, str(path), True)


TARGETS = (
    Target("frame", _frame_seeds, _changed_frame, _framed, _receive, refusals=(BadMessage,)),
    Target("replay", _replay_seeds, changed_tree, lambda tree: dumps(tree).encode(), _replay),
)
