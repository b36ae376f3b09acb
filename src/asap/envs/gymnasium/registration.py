"""Our named tasks in Gymnasium's registry. Entry points are strings, so that registering does not import JAX."""

import importlib.abc
import importlib.util
import sys

# Id, name in the catalog, time limit. A copy of what the catalog says (a test compares them): asking it imports JAX.
ENVIRONMENTS = (
    ("asap/TwoRooms-v0", "two-rooms", 400),
    ("asap/FlippedTwoRooms-v0", "flipped-two-rooms", 400),
    ("asap/ThreeRooms-v0", "three-rooms", 400),
    ("asap/StrikerR1-v0", "striker-r1", 1000),
    ("asap/StrikerR2-v0", "striker-r2", 1000),
    ("asap/StrikerR3-v0", "striker-r3", 1000),
)
IDS = {name: gymnasium_id for gymnasium_id, name, _ in ENVIRONMENTS}

_known: frozenset[str] = frozenset()


def known_ids() -> frozenset[str]:
    """What was registered when gymnasium and asap had been imported: by them, and by no file that was read since."""
    return _known


def register() -> None:
    """Makes `gymnasium.make("asap/TwoRooms-v0")` work; a second call changes nothing."""
    import gymnasium

    global _known

    for gymnasium_id, name, max_episode_steps in ENVIRONMENTS:
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id,
                entry_point="asap.envs.gymnasium.exported:TaskEnv",
                vector_entry_point="asap.envs.gymnasium.exported_vector:TaskVectorEnv",
                max_episode_steps=max_episode_steps,
                kwargs={"name": name},
            )
    _known = _known or frozenset(gymnasium.registry)


class _AfterGymnasium(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads gymnasium as usual, then registers."""

    def find_spec(self, name, path=None, target=None):
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        register()


def register_with_gymnasium() -> None:
    """Registers now, or as soon as gymnasium is imported: importing it here would double the time of `asap --help`."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _AfterGymnasium())
