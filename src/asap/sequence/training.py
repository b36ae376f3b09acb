"""Tasks one after another in one run directory, which any command takes; stopped at any point, it goes on to the same bits.

RUN/config.toml, tasks.json       of all tasks
RUN/events.jsonl                  what every task returned, before the first task and after each
RUN/checkpoints                   the policies after each task, and the planes of each
RUN/task-01, task-02, ...         the training of each task: a run like any other
RUN/scratch-02, ...               the same from scratch, where that was asked for
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from asap.base.arrays import known_mean, members, stack, to_arrays
from asap.base.episodes import EVALUATION, RANDOM
from asap.base.errors import Interrupted
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.experience.choose import choose
from asap.experience.protocol import EpisodeIds, Experience
from asap.learn.state import TrainState
from asap.model.another_task import policies_on
from asap.model.files import Saved, planes_in, policies_in, with_planes_in
from asap.model.training import blank_start, seeds_of, train_run
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import Planes, planes_of, uniform
from asap.runs.checkpoints import belonging, require_same
from asap.runs.directory import Run
from asap.runs.events import Callback
from asap.runs.loggers import Phase, no_phase
from asap.runs.signals import StopRequest
from asap.sequence.parts import TaskTraining, has_own_planes, start_of
from asap.workers.hire import IN_PROCESS

# Who hears of the training of a task, and which it is: callbacks between updates, and what else is under way.
Watch = Callable[[Config, str], contextlib.AbstractContextManager[tuple[list[Callback], Phase]]]


@contextlib.contextmanager
def unwatched(config: Config, label: str) -> Iterator[tuple[list[Callback], Phase]]:
    yield [], no_phase


class TaskSequence:
    """All tasks of a config, learned in their order."""

    def __init__(
        self, run: Run, config: Config, tasks: TaskSet, stop: StopRequest, workers: str = "0", watch: Watch = unwatched
    ):
        self.run, self.config, self.tasks, self.stop = run, config, tasks, stop
        self._workers, self._watch = workers, watch
        checkpoint = run.latest()
        self.num_learned, self.policies, self.planes = 0, blank_start(config, tasks).policy, ()
        self.spent = 0, 0
        self._players: dict[tuple[str, ...], Experience] = {}  # Those that play evaluations, by their tasks.
        if checkpoint is not None:
            require_same(config, checkpoint, run.path, tasks.names_say_all)
            saved = Saved(config, tasks, config.run.seed, checkpoint.arrays, whole=False)
            self.num_learned, self.policies = checkpoint.step, policies_in(saved)
            self.planes = planes_in(saved, self.policies)
            self.spent = checkpoint.meta["episodes"], checkpoint.meta["env_steps"]

    def learn(self) -> bool:
        """Until all tasks are learned, or somebody asks to stop; and whether they are."""
        with self.run.locked(), contextlib.ExitStack() as self._open, contextlib.suppress(Interrupted):
            self._players = {}
            told = {(event.get("kind"), event.get("task")) for event in self.run.events()}
            if ("random", None) not in told:
                self._tell("random", None, returns=self._returns_at_random())
            for index in range(self.num_learned, self.tasks.size):
                self.stop.check()
                if not self._learn_task(index):
                    return False
            for part in self.scratch_parts():
                if ("scratch", part.index) not in told and not self._learn_from_scratch(part):
                    return False
            if ("end", None) not in told:
                self._tell("end", None)
            return True
        return False

    def scratch_parts(self) -> list[TaskTraining]:
        """The first task is learned from scratch anyway, where the sequence does not start from another run."""
        if not self.config.sequence.scratch:
            return []
        first = 0 if self.config.run.source is not None else 1
        return [self.part(index, is_scratch=True) for index in range(first, self.tasks.size)]

    def part(self, index: int, is_scratch: bool = False) -> TaskTraining:
        return TaskTraining.of(self.run, self.config, self.tasks, index, is_scratch)

    def _learn_task(self, index: int) -> bool:
        part, before = self.part(index), self.part(index - 1) if index else None
        found = self._trained(part, before)
        if found is None:
            return False
        self.policies = jax.tree.map(np.asarray, found.outcome)
        self.planes = (*self.planes, planes_of(self.policies)) if has_own_planes(self.config) else ()
        episodes, steps = found.totals.episodes.sum(-1).tolist(), found.env_steps.tolist()
        self._tell("task", index, returns=self._returns(self.policies, self.planes), episodes=episodes, env_steps=steps)
        self.spent = self.spent[0] + episodes[0], self.spent[1] + steps[0]
        meta = {**belonging(self.config), "score": None, "episodes": self.spent[0], "env_steps": self.spent[1]}
        self.run.save(index + 1, with_planes_in(to_arrays(self.policies), self.planes), meta)
        self.num_learned = index + 1
        return True

    def _learn_from_scratch(self, part: TaskTraining) -> bool:
        found = self._trained(part, None)
        if found is None:
            return False
        with self._player(part.config, part.tasks) as player:
            returns = self._played(player, jax.tree.map(np.asarray, found.outcome), EVALUATION)
        self._tell("scratch", part.index, returns=returns[:, 0])
        return True

    def _trained(self, part: TaskTraining, before: TaskTraining | None) -> TrainState | None:
        """None where it was stopped."""
        label = f"{part.is_scratch * 'from scratch, '}task {part.index + 1} of {self.tasks.size}"
        with self._watch(part.config, label) as (callbacks, phase):
            given, source = start_of(part, before, self.config)
            how = {"given": given, "evaluates": False, "phase": phase, "source": source}
            training = part.opened(), part.config, part.tasks, self.stop, callbacks, self._workers
            states, result = train_run(*training, **how)
        return states if result.finished and self.stop.requested is None else None

    # ---- What every task returns ----

    def _returns_at_random(self) -> Float[np.ndarray, "S T"]:
        players = stack([uniform(one) for one in members(self.policies, self.config.run.seeds)])
        with self._player(self.config, self.tasks) as player:
            return self._played(player, players, RANDOM)

    def _returns(self, policies: ASAPPolicy, planes: tuple[Planes, ...]) -> Float[np.ndarray, "S T"]:
        """Where tasks have planes of their own, each is played under its own."""
        if not planes:
            with self._player(self.config, self.tasks) as player:
                return self._played(player, policies, EVALUATION)
        columns = []
        for index, task in enumerate(self.tasks.tasks):
            part = self.part(index)
            with self._player(part.config, part.tasks) as player:
                columns.append(self._played(player, policies_on(self.tasks, task, policies, planes), EVALUATION))
        return np.concatenate(columns, 1)

    def _played(self, player: Experience, policies: ASAPPolicy, stream: int) -> Float[np.ndarray, "S T"]:
        sure = self.config.run.deterministic and stream == EVALUATION
        ids = EpisodeIds(seeds_of(self.config), stream)
        return known_mean(player.evaluate(policies, ids, self.config.sequence.look_episodes, sure).returns)

    @contextlib.contextmanager
    def _player(self, config: Config, tasks: TaskSet) -> Iterator[Experience]:
        """In this process it stays until the end: it may have compiled a program. Other processes are not kept waiting."""
        if self._workers != IN_PROCESS:
            with contextlib.closing(self._new_player(config, tasks)) as player:
                yield player
            return
        if tasks.names not in self._players:
            player = self._open.enter_context(contextlib.closing(self._new_player(config, tasks)))
            self._players[tasks.names] = player
        yield self._players[tasks.names]

    def _new_player(self, config: Config, tasks: TaskSet) -> Experience:
        place = self.run.path, self.run.notice
        return choose(config, tasks, self._workers, *place, learns=False, stop=self.stop)

    def _tell(self, kind: str, task: int | None, **what: Any) -> None:
        self.run.append({"kind": kind, "task": task, **what})
