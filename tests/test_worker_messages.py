"""Messages arrive as they were sent; whatever else arrives is refused, and costs nothing (bad input 60)."""

import json
import random
import tracemalloc

import numpy as np
import pytest
from test_workers import new_works, played, walk

from asap.base.episodes import EpisodeId
from asap.base.errors import RunError, UserError
from asap.envs.gymnasium.make import EnvLimits, HostedSource
from asap.workers import messages as frames
from asap.workers.messages import (
    PREFIX,
    BadMessage,
    Goodbye,
    Hello,
    Ready,
    Refused,
    decode,
    encode,
    frame_size,
    pack,
    unpack,
)
from asap.workers.work import Failed, Finished, digest

FAILED = Failed(
    EpisodeId(2**63 - 1, 2, 8, 5), "env.step", "obs[1] is nan", "ü\n", 3, [1, [0.5, float("nan")]], "Traceback ..."
)

WORK = {"kind": "Work", "number": 1, "static": {}, "names": [], "episodes": [[0, 0, 0, 0]], "deterministic": False}


def test_messages_arrive_as_they_were_sent():
    sources = (
        HostedSource(walk(pause=0.5), EnvLimits(max_steps=7)),
        HostedSource(walk("fails", what="raise"), EnvLimits()),
    )
    plain = [Hello(sources[:1]), Hello(sources), Goodbye(), Ready({"numpy": "2"}), Refused("env: gone", 2)]
    for message in plain:
        assert decode(encode(message)) == message
    failed = decode(encode(Finished(7, (), FAILED))).failed
    assert repr(failed) == repr(FAILED)


def test_work_arrives_as_it_was_sent():
    work = new_works(2)[1]._replace(deterministic=True)
    arrived = decode(encode(work))
    assert (arrived.number, arrived.episodes, arrived.deterministic) == (1, work.episodes, True)
    assert arrived.plan.static == work.plan.static and list(arrived.plan.arrays) == list(work.plan.arrays)
    for sent, received in zip(work.plan.arrays.values(), arrived.plan.arrays.values()):
        assert sent.dtype == received.dtype and sent.shape == received.shape and (sent == received).all()
        assert received.flags.aligned and received.flags.writeable


def test_the_tasks_of_episodes_arrive():
    work = new_works(1)[0]
    work = work._replace(episodes=tuple(id._replace(task=task) for task, id in enumerate(work.episodes)))
    arrived = decode(encode(work))
    assert arrived.episodes == work.episodes and [id.task for id in arrived.episodes] == [0, 1, 2, 3, 4]
    (finished,) = played(1)
    sent = tuple(one._replace(episode=one.episode._replace(task=task)) for task, one in enumerate(finished.played))
    arrived = decode(encode(Finished(0, sent))).played
    assert [one.episode for one in arrived] == [one.episode for one in sent]
    assert digest(sent[1]) != digest(sent[1]._replace(episode=finished.played[1].episode)), "task 1 and task 0"


@pytest.mark.parametrize("success", [None, True, False])
def test_episodes_arrive_as_they_were_played(success):
    (finished,) = played(1)
    first, *others = finished.played
    sent = (first._replace(success=success, notes=("a", "b")), *others)
    gaussian = tuple(one._replace(actions=np.full((one.length, 3), i, np.float32)) for i, one in enumerate(sent))
    for some in (sent, gaussian, sent[:1], ()):
        arrived = decode(encode(Finished(5, some)))
        assert list(map(digest, arrived.played)) == list(map(digest, some))
    arrived = decode(encode(Finished(5, gaussian)))
    assert arrived.played[0].notes == ("a", "b") and arrived.played[0].success is success


def test_errors_keep_their_kind():
    for error in (UserError("env", "gone", 7, "look"), RunError("workers", "a: b")):
        again = Refused(str(error), error.exit_code).error()
        assert (type(again), str(again), again.field) == (type(error), str(error), error.field)


def test_damaged_frames_are_refused_or_harmless():
    """Some flips make another number, which cannot be noticed; nothing else may happen than a refusal."""
    rng = random.Random(0)
    whole = encode(played(1)[0])
    for size in (0, 1, PREFIX.size - 1, PREFIX.size, PREFIX.size + 1, len(whole) - 1):
        with pytest.raises(BadMessage):
            decode(whole[:size])
    refused, header = 0, PREFIX.size + PREFIX.unpack_from(whole)[1]
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[rng.randrange(header)] ^= 1 << rng.randrange(8)
        try:
            decode(damaged)
        except BadMessage:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    "start",
    [
        PREFIX.pack(b"ASAP", 1 << 31, 0),
        PREFIX.pack(b"ASAP", 2, 1 << 60),
        PREFIX.pack(b"\x80\x04ab", 2, 0),
    ],
    ids=["a header that is too large", "a body that is too large", "something else"],
)
def test_sizes_are_refused_before_memory_is_taken(start):
    with pytest.raises(BadMessage):
        frame_size(start)


@pytest.mark.parametrize(
    "shapes",
    [[["<f4", [1 << 20, 1 << 20]]], [["<f4", [-1]]], [["|O", [1]]], [["<f4", [0] * 40]], [["<f4"]], 7, [[]]],
)
def test_arrays_that_are_not_there(shapes):
    start = json.dumps([{"kind": "Goodbye"}, shapes]).encode()
    tracemalloc.start()
    with pytest.raises(BadMessage):
        unpack(PREFIX.pack(b"ASAP", len(start), 0) + start)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        {"kind": "Pickle"},
        {"kind": "Finished", "number": "1", "played": [], "failed": None},
        {"kind": "Finished", "number": 1, "played": [[[0, 0, 0, 0], 1, True, None, []]], "failed": None},
        {"kind": "Finished", "number": 1, "played": [], "failed": {"episode": [0, 0, 0, 0]}},
        {"kind": "Refused", "line": 3, "exit_code": 1},
        {"kind": "Ready", "versions": ["numpy"]},
        {"kind": "Hello", "sources": [["CartPole-v1", {}, {"unknown": 1}]]},
        {"kind": "Hello", "sources": []},
        {"kind": "Hello", "sources": [["CartPole-v1", {}, {"max_steps": 7}]]},
        {"kind": "Finished", "number": 1, "played": None, "failed": None},
        {**WORK, "names": ""},
        {**WORK, "episodes": [[-1, 0, 0, 0]]},
        {**WORK, "episodes": [[0, 8, 0, 0]]},
        {**WORK, "episodes": [[0, 0, 0, -1]]},
        {**WORK, "episodes": [[0, 0, 0]]},
        {**WORK, "episodes": [[0, 0, 0, "1"]]},
        {**WORK, "names": ["beta"]},
    ],
)
def test_headers_that_say_something_else(header):
    assert decode(pack(WORK, [])).episodes == (EpisodeId(0, 0, 0),)
    with pytest.raises(BadMessage):
        decode(pack(header, []))


def test_a_refusal_is_one_line():
    for header in ({"kind": "a\nb"}, {**WORK, "number": "a\n\u2028b"}, {**WORK, "episodes": [["\n", 0, 0, 0]]}):
        with pytest.raises(BadMessage) as refused:
            decode(pack(header, []))
        assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(BadMessage, match="^an array cannot have the shape a b$"):
        start = json.dumps([WORK, [["<f4", "a\nb"]]]).encode()
        unpack(PREFIX.pack(b"ASAP", len(start), 0) + start)


def test_notes_are_lists_and_arrays_have_names_of_their_own():
    (finished,) = played(1)
    header, arrays = unpack(encode(finished))
    header["played"][0][4] = "abc"
    with pytest.raises(BadMessage, match="not a list: 'abc'"):
        decode(pack(header, arrays))
    with pytest.raises(BadMessage, match="two arrays of one name"):
        decode(pack({**WORK, "names": ["a", "a"]}, [np.zeros(1), np.zeros(1)]))
    with pytest.raises(BadMessage, match="arrays without episodes"):
        decode(pack({"kind": "Finished", "number": 1, "played": [], "failed": None}, [np.zeros(1)]))


def test_episodes_whose_parts_do_not_fit():
    (finished,) = played(1)
    first = finished.played[0]
    wrong = (
        {"rewards": first.rewards[1:]},
        {"observations": first.observations[1:]},
        {"skills": first.skills.astype(float)},
    )
    for change in wrong:
        with pytest.raises(BadMessage, match="do not fit together"):
            decode(encode(Finished(1, (first._replace(**change),))))


def test_a_message_that_is_too_large_is_one_line(monkeypatch):
    monkeypatch.setattr(frames, "LARGEST_BODY", 1000)
    with pytest.raises(RunError, match="workers: a message of .* bytes is too large; play fewer episodes at a time"):
        encode(played(1)[0])
