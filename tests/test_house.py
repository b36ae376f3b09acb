"""The plan of the house: which room imports which, how long modules are, what runs without JAX, who asks for kinds of
tasks.

The source is read and not imported. Where a rule does not hold yet, the exception is named with its reason, and the
lists are exact: what is mended must leave its list.
"""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# A room may import what stands before it.
ROOMS = (
    "base config envs policy data workers runs experience show learn compose model distill sequence rivals paper cli"
).split()
# Where the order allows more than the plan. Each entry: a room or module that must not be imported.
FORBIDDEN = {
    "policy": ("envs",),  # Spec is in base.
    "learn": ("envs", "workers", "show"),  # The loop is given its experience, config and first policies.
    "sequence": ("distill",),
    "rivals": ("distill", "sequence"),
}
# Rooms that may import these alone.
ONLY = {
    "data": ("base",),
    "workers": ("base", "policy.host", "policy.lanes", "envs.gymnasium"),
    "runs": ("base", "config"),
}
AFTER_MODEL = {"learn_sequence"}  # The method of a model that the room sequence does the work of.
SHOWING = {"explain", "explanation", "plot", "changes", "plot_changes"}  # Functions of model that may import show.
ENTRY = "asap.__main__"  # The command line's own entry.

MOST_MODULES, LONGEST, SHORTEST = 265, 350, 30
SHORT = {
    "asap.__main__": "five lines start the command line",
}
KINDS = {"CompiledTask", "HostedTask"}
MAY_ASK_FOR_KINDS = ("asap.envs", "asap.experience.choose")
WITHOUT_JAX = (
    "asap.workers",
    "asap.policy.host",
    "asap.policy.lanes",
    "asap.base.spec",
    "asap.base.episodes",
    "asap.envs.gymnasium",
)
WITH_JAX = ("asap.envs.gymnasium.exported",)  # Our compiled tasks, for Gymnasium.
NEEDS_JAX = {"jax", "jaxlib", "equinox", "optax"}

# Who names a kind without asking which one a task is: in annotations, and where only one kind can be meant.
_NAMED = "measures or draws what only our own tasks have"
KNOWS_KINDS = {
    "asap.cli.listing: CompiledTask": _NAMED,
    "asap.experience.asked: HostedTask": "a function is asked on the host, and is given the task in that form",
    "asap.distill.distillation: HostedTask": "teachers play environments; our own tasks are given to them as such",
    "asap.distill.demonstrations: HostedTask": "as above",
    "asap.paper.references: CompiledTask": _NAMED,
    "asap.paper.reuse: CompiledTask": _NAMED,
    "asap.paper.strikers: CompiledTask": _NAMED,
    "asap.paper.task_sequence: CompiledTask": _NAMED,
}


# ---- Reading ------------------------------------------------------------------------------------------------------


class Module(NamedTuple):
    name: str
    is_package: bool
    text: str
    tree: ast.Module


class Import(NamedTuple):
    target: str  # A module, or a package.
    name: str | None  # What is taken from it; None for the module itself.
    function: str | None  # In whose body it stands.
    is_for_types: bool  # Under `if TYPE_CHECKING`.


@functools.cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Module(name, is_package, text, ast.parse(text))
    return found


def imports(module: Module) -> Iterator[Import]:
    yield from _imports(module.tree, None, False)


def _imports(node: ast.AST, function: str | None, is_for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, None, function, is_for_types) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module, "imports are written in full"
            yield from (_taken(child.module, alias.name, function, is_for_types) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(child, function or child.name, is_for_types)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imports(child, function, True)
        else:
            yield from _imports(child, function, is_for_types)


def _taken(module: str, name: str, function: str | None, is_for_types: bool) -> Import:
    if f"{module}.{name}" in modules():
        return Import(f"{module}.{name}", None, function, is_for_types)
    if (module, name) == ("asap", "ASAP"):  # What the package hands on lazily.
        return Import("asap.model.model", name, function, is_for_types)
    return Import(module, name, function, is_for_types)


def within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


def room_of(name: str) -> str | None:
    return (name.split(".") + [""])[1] or None


# ---- (a) Imports point one way ------------------------------------------------------------------------------------


def is_against_the_order(importer: str, one: Import) -> bool:
    ours, theirs = room_of(importer), room_of(one.target)
    if theirs not in ROOMS or not within(one.target, "asap") or ours == theirs:
        return False
    if theirs == "cli":
        return importer != ENTRY
    if ours is None or importer == ENTRY:  # The package itself: public names, and registering with Gymnasium.
        return one.function is None and not one.is_for_types and theirs not in ("base", "envs")
    if ours in ONLY:
        return not any(within(one.target, f"asap.{place}") for place in ONLY[ours])
    if theirs == "paper" and ours != "cli":
        return True
    if (ours, theirs) == ("model", "show") and not one.is_for_types:
        return one.function not in SHOWING
    if (ours, theirs) == ("model", "sequence"):
        return not one.is_for_types and one.function not in AFTER_MODEL
    return ROOMS.index(theirs) > ROOMS.index(ours) or theirs in FORBIDDEN.get(ours, ())


def test_every_module_is_in_a_room_of_the_plan():
    rooms = {room_of(name) for name in modules()} - {None, "__main__"}
    assert rooms <= set(ROOMS)


def test_rooms_import_what_stands_before_them():
    found = {
        f"{name} -> {one.target}"
        for name, module in modules().items()
        for one in imports(module)
        if is_against_the_order(name, one)
    }
    assert found == set()


def test_imports_name_what_is_there():
    found = {
        name
        for name, module in modules().items()
        for one in imports(module)
        if within(one.target, "asap") and not _is_there(one)
    }
    assert found == set()


def _is_there(one: Import) -> bool:
    module = modules().get(one.target)
    return module is not None and (one.name is None or one.name in _names(module.name))


@functools.cache
def _names(name: str) -> set[str]:
    """What a module has at its top level, and what it hands on lazily (`__all__`)."""
    found = set()
    for node in _top_level(modules()[name].tree.body):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.Assign() | ast.AnnAssign() | ast.For() | ast.With():
                found |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                found |= {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & set(_all(node))
    return found


def _all(node: ast.AST) -> list[str]:
    is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    return ast.literal_eval(node.value) if is_all else []


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _top_level([*node.body, *node.orelse])


# ---- (b) Modules are few, and neither collections nor fragments ---------------------------------------------------


def lengths() -> dict[str, int]:
    return {name: len(module.text.splitlines()) for name, module in modules().items() if not module.is_package}


def test_there_are_few_modules():
    assert len(lengths()) <= MOST_MODULES


def test_no_module_is_a_collection():
    assert {name for name, length in lengths().items() if length > LONGEST} == set()


def test_no_module_is_a_fragment():
    assert {name for name, length in lengths().items() if length < SHORTEST} == set(SHORT)


# ---- (c) One name, one thing --------------------------------------------------------------------------------------


def test_no_two_public_classes_have_one_name():
    places = defaultdict(set)
    for name, module in modules().items():
        for node in _top_level(module.tree.body):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    assert {name for name, where in places.items() if len(where) > 1} == set()


# ---- (d) What plays on the host runs without JAX ------------------------------------------------------------------


def hosted() -> list[str]:
    return [name for name in modules() if any(within(name, place) for place in WITHOUT_JAX) and name not in WITH_JAX]


def chain_to_jax(name: str, seen: set[str]) -> list[str]:
    """The imports at module level that lead from a module to JAX; empty where none does."""
    seen.add(name)
    packages = [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
    for one in [*imports(modules()[name]), *(Import(package, None, None, False) for package in packages)]:
        if one.function is not None or one.is_for_types:
            continue
        if one.target.partition(".")[0] in NEEDS_JAX or (one.target, one.name) == ("jaxtyping", "Array"):
            return [name, one.target]
        if one.target in modules() and one.target not in seen:
            chain = chain_to_jax(one.target, seen)
            if chain:
                return [name, *chain]
    return []


@pytest.mark.parametrize("name", hosted())
def test_what_plays_on_the_host_imports_no_jax(name):
    assert chain_to_jax(name, set()) == []


def test_what_plays_on_the_host_loads_no_jax():
    script = f"import sys, {', '.join(hosted())}; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_public_names_are_lazy_and_there():
    script = (
        "import sys, asap; from asap import RunError, UserError, __version__; assert 'jax' not in sys.modules\n"
        "assert {'ASAP', 'RunError', 'UserError', '__version__'} <= set(dir(asap))\n"
        "from asap import ASAP; import asap.distill.distillation; from asap.distill import distill\n"
        "assert ASAP.__name__ == 'ASAP' and callable(distill)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


# ---- (e) One place asks which kind of task it is ------------------------------------------------------------------


def test_one_place_asks_which_kind_a_task_is():
    found = set()
    for name, module in modules().items():
        if any(within(name, place) for place in MAY_ASK_FOR_KINDS):
            continue
        used = Counter(_identifiers(module.tree))
        found |= {f"{name}: {kind}" for kind in KINDS if used[kind]}
    assert found == set(KNOWS_KINDS)


def _identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.Constant(value=str() as annotation):
                yield from re.findall(r"\w+", annotation) if len(annotation) < 80 else ()
