"""Our named tasks in Gymnasium's registry, and what is meant by a name that is not there.

Entry points are strings, so that registering does not import JAX."""

import difflib
import importlib.abc
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator

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

_known: set[str] = set()


def known_ids() -> frozenset[str]:
    """What was registered when gymnasium and asap had been imported: by them, and by no file that was read since."""
    return frozenset(_known)


def register() -> None:
    """Makes `gymnasium.make("asap/TwoRooms-v0")` work; a second call changes nothing."""
    import gymnasium

    for gymnasium_id, name, max_episode_steps in ENVIRONMENTS:
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id,
                entry_point="asap.envs.gymnasium.exported:TaskEnv",
                vector_entry_point="asap.envs.gymnasium.exported:TaskVectorEnv",
                max_episode_steps=max_episode_steps,
                kwargs={"name": name},
            )
    if not _known:
        _known.update(gymnasium.registry)


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


def nearest(gymnasium_id: str, name: str) -> str:
    """The cure for an unknown id, all of `name` or its end: the newest version, the id most like it, a module to name,
    or a file of the current folder."""
    import gymnasium

    if gymnasium_id in IDS:
        return f"a task of our own is '{IDS[gymnasium_id]}' in Gymnasium"
    module = os.path.basename(gymnasium_id).removesuffix(".py")
    if gymnasium_id.endswith(".py") or (gymnasium_id == module == name and module in _modules_here()):
        return f"name the function in it that makes the environment: {module}:FUNCTION"
    known = gymnasium.registry.values()
    versions = [spec for spec in known if stem(spec.id) == stem(gymnasium_id) != ""]
    if versions:
        return f"did you mean '{max(versions, key=lambda spec: spec.version or 0).id}'?"
    namespace, slash, _ = gymnasium_id.rpartition("/")
    if slash and not any(spec.namespace == namespace for spec in known):
        return f"name the module that registers '{namespace}' too, as in 'module:{gymnasium_id}'"
    cure = meant(name) or did_you_mean(gymnasium_id, gymnasium.registry)
    return cure or "list what there is with gymnasium.pprint_registry()"


def stem(gymnasium_id: str) -> str:
    """Without the version; empty if there is none."""
    return gymnasium_id.rpartition("-v")[0]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else ""


MOST_FILES, MOST_BYTES = 200, 1 << 20  # Of the current folder, looked through for a name.


def meant(name: str) -> str:
    """The cure for `tanks.TwoTanks`, `tanks.py:TwoTanks`, `TwoTanks` or `tank:TwoTanks` in a folder with tanks.py. Files
    are read as text: nothing is imported."""
    place, colon, attribute = name.partition(":")
    module = os.path.normpath(place).removesuffix(".py").replace("/", ".")
    if not colon:
        module, _, attribute = name.rpartition(".")
    if not attribute.isidentifier():
        return ""
    here = list(_modules_here())
    if module and os.path.isfile(f"{module.replace('.', '/')}.py"):
        found = module
    else:
        near = difflib.get_close_matches(module, here, len(here) or 1)
        defining = (each for each in [*near, *here] if _defines(each, attribute))
        found = next(defining, next(iter(near), "") if colon else "")
    return f"did you mean '{found}:{attribute}'?" if found and f"{found}:{attribute}" != name else ""


def is_defined_here(name: str) -> bool:
    """Whether a file of the current folder has a class or a function of that name."""
    return name.isidentifier() and any(_defines(module, name) for module in _modules_here())


def _modules_here() -> Iterator[str]:
    try:
        files = sorted(os.listdir("."))
    except OSError:
        return
    modules = (file.removesuffix(".py") for file in files if file.endswith(".py"))
    for module, _ in zip(filter(str.isidentifier, modules), range(MOST_FILES)):
        yield module


def _defines(module: str, name: str) -> bool:
    path = f"{module}.py"
    try:
        if not os.path.isfile(path):  # A pipe would wait.
            return False
        with open(path, encoding="utf-8", errors="replace") as file:
            return re.search(rf"^(class|def) +{name}\b", file.read(MOST_BYTES), re.MULTILINE) is not None
    except OSError:
        return False
