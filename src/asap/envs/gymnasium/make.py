"""Where an environment comes from: an id of Gymnasium, an importable function, or a live object of this process."""

import functools
import importlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from types import MappingProxyType
from typing import Any, NamedTuple

from asap.base.episodes import EpisodeId
from asap.base.errors import UserError, message_of
from asap.base.spec import base_of
from asap.envs.gymnasium.isolation import is_of_a_person
from asap.envs.gymnasium.limits import EnvLimits, harmless
from asap.envs.gymnasium.parameters import Named, parse
from asap.envs.gymnasium.registration import did_you_mean, known_ids, meant, nearest, stem

NO_ENV = "rules"  # The name of what rules are for that came without any environment.
FIELD = "env"


class EnvNotMade(UserError):
    """An environment could not be made, or may not be: words and pictures do without."""


class EnvSource(NamedTuple):
    """A recipe for an environment. Without `make` it is plain data that any worker can follow."""

    name: str  # "CartPole-v1", "module:Id-v0" or "module:function"; parameters may follow: "CartPole-v1?length=0.3".
    options: dict[str, Any] = {}  # Keyword arguments, as JSON has them.
    make: Callable[..., Any] | None = None  # In this process only.
    named_by: str = ""  # A file of unknown origin that alone names it: it is neither imported nor called.

    @classmethod
    def of(cls, origin: Any, options: dict[str, Any] | None = None) -> "EnvSource":
        """From what a user may give: a name, an environment, or a function that makes one."""
        options = {} if options is None else options
        if isinstance(origin, str):
            return cls(origin, options)
        import gymnasium

        from asap.envs.jax_native.interface import JaxSource

        if (found := JaxSource.of(origin)) is not None:
            if options:
                raise UserError(FIELD, "an environment that is already made takes no options", sorted(options))
            kind = type(found.env)
            return cls(f"{kind.__module__}:{kind.__qualname__}", {}, lambda: found)
        if callable(origin) and not isinstance(origin, gymnasium.Env):
            module, name = getattr(origin, "__module__", None), getattr(origin, "__qualname__", type(origin).__name__)
            return cls(f"{module or 'unknown'}:{name}", options, origin)
        require_env(origin, type(origin).__name__)
        if options:
            what = "an environment that is already made takes no options"
            raise UserError(FIELD, what, sorted(options), "pass its id instead")
        spec, kind = origin.spec, type(origin.unwrapped)
        if spec is None:
            return cls(f"{kind.__module__}:{kind.__qualname__}", {}, Lent(origin))
        options = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
        if spec.max_episode_steps is not None:
            options["max_episode_steps"] = spec.max_episode_steps
        return cls(spec.id, options, Lent(origin))

    @property
    def named(self) -> Named:
        return parse(self.name)

    @property
    def base(self) -> str:
        """The name without parameters."""
        return base_of(self.name)

    def of_episode(self, episode: EpisodeId) -> "EnvSource":
        """With the values that the episode draws from ranges."""
        return self._replace(name=self.named.of_episode(episode).text) if self.named.has_ranges else self

    def without_parameters(self) -> "EnvSource":
        return self._replace(name=self.base)

    def build(self) -> Any:
        """A gymnasium.Env. Of a range, the value in the middle: an episode's own is that of `of_episode`."""
        return require_env(self.made(), self.name)

    def made(self, note: Callable[[str], None] = lambda text: None) -> Any:
        """What the recipe leads to; all that goes wrong on the way is the user's to know in one line."""
        if self.named_by:
            if ":" not in self.name:
                require_registered(self.base)  # What nobody has registered is more likely a slip.
            raise _named_by_a_stranger(self)
        try:
            if not self.named.parameters:
                return self.maker()()
            from asap.envs.gymnasium.variant import build_variant
            from asap.envs.jax_native.interface import jax_variant

            found = jax_variant(self)
            return build_variant(self, note) if found is None else found
        except UserError:
            raise
        except BaseException as error:
            if is_of_a_person(error):
                raise
            raise _explain(self.name, error) from error

    def has_vector_form(self) -> bool:
        """Whether Gymnasium's registry has one, for a plain id."""
        if self.named_by or self.make is not None or ":" in self.name and _find_factory(self.name) is not None:
            return False
        import gymnasium

        spec = gymnasium.registry.get(self.name.rpartition(":")[2])
        return spec is not None and spec.vector_entry_point is not None

    def build_vector(self, num_lanes: int) -> Any:
        """A gymnasium.vector.VectorEnv."""
        import gymnasium

        return gymnasium.make_vec(self.name, num_lanes, vectorization_mode="vector_entry_point", **self.options)

    def by_stranger(self, path: str | os.PathLike) -> "EnvSource":
        """As a file of unknown origin may name it: ids of Gymnasium's own are made, with harmless options; no other."""
        if is_registered(self.base):
            return self._replace(options=harmless(self.options))
        return self._replace(named_by=os.fspath(path))

    def portable(self) -> "EnvSource":
        """This source as plain data, for workers outside of this process."""
        if self.named_by:
            raise _named_by_a_stranger(self)
        reason = _why_not_portable(self)
        if reason:
            what, cure = "env factory", "pass an importable 'module:function'"
            if isinstance(self.make, Lent):
                what, cure = "an environment object", f"use workers=0, pass an id, or {cure}"
            raise UserError(FIELD, f"{what} cannot be sent to workers ({reason})", self.name, cure)
        return self._replace(make=None)

    @property
    def is_lent(self) -> bool:
        """An environment that is already made."""
        return isinstance(self.make, Lent)

    @property
    def is_local(self) -> bool:
        """Of a script or a function: no command finds it by its name."""
        return self.make is not None and (self.name.startswith("__main__:") or "<" in self.name)

    def maker(self, more: Mapping[str, Any] = MappingProxyType({})) -> Callable[[], Any]:
        from asap.envs.jax_native.interface import GYMNAX, make_gymnax

        if isinstance(self.make, Lent):
            return self.make
        if self.make is None and self.name.startswith(GYMNAX):
            return functools.partial(make_gymnax, self.base.removeprefix(GYMNAX), self.options)
        if (factory := self.factory()) is not None:
            return functools.partial(factory, **{**self.options, **more})
        import gymnasium

        require_registered(self.base)
        return functools.partial(gymnasium.make, self.base, **{"disable_env_checker": True, **self.options, **more})

    def factory(self) -> Callable[..., Any] | None:
        """What makes it; None for an id of Gymnasium."""
        return _find_factory(self.base) if self.make is None else self.make


def is_registered(name: str) -> bool:
    """Whether it is an id, with or without its version, that importing gymnasium and asap has registered; parameters
    may follow."""
    import gymnasium  # noqa: F401 - Registers.

    known, name = known_ids(), base_of(name)
    return name in known or any(stem(each) == name for each in known)


def require_registered(name: str) -> None:
    """Asked before Gymnasium is, whose answer may be several lines long. Without a version, it takes the newest."""
    import gymnasium

    if name == NO_ENV:
        cure = "give one: ASAP(env, rules=...), or ASAP.load(file, env=...)"
        raise EnvNotMade(FIELD, "there is none, the rules came with names alone", cure=cure)
    gymnasium_id = name.rpartition(":")[2]
    if gymnasium_id not in gymnasium.registry and not any(stem(known) == gymnasium_id for known in gymnasium.registry):
        raise EnvNotMade(FIELD, f"'{name}' is not registered", cure=nearest(gymnasium_id, name))


def _named_by_a_stranger(source: EnvSource) -> EnvNotMade:
    name, module = ascii(source.name)[1:-1], source.name.partition(":")[0].partition(".")[0]
    if ":" in source.name and len(name) <= 80 and module.isidentifier() and _spec_of(module) is None:
        what = f"{ascii(source.named_by)} names '{name}', whose module '{module}' is not found here"
        return EnvNotMade(FIELD, what, cure=f"{_find_module(module)}, or name another: --env NAME (in Python: env=...)")
    what = f"only {ascii(source.named_by)} names '{name[:80]}', and nothing shows that you made that file"
    again = shlex.join(["--env", name] if len(name) <= 80 else ["--env", "NAME"])
    return EnvNotMade(FIELD, what, cure=f"if you trust it, say so: {again} (in Python: env=...)")


def place_of(name: str) -> str:
    """Where "module:function" is imported from, if that is the working directory; empty otherwise.

    Part of a tag: a folder with a module of the same name must not be taken for the one that the user meant.
    """
    try:
        here, found = os.path.realpath(os.getcwd()), _spec_of(name.partition(":")[0].partition(".")[0])
    except (OSError, ValueError):  # A working directory that is gone, a name that is none.
        return ""
    if found is None:
        return ""
    file = next(iter(found.submodule_search_locations or ()), found.origin or "")
    return here if os.path.dirname(os.path.realpath(file)) == here else ""


def _spec_of(module: str) -> ModuleSpec | None:
    """Where it would be imported from; nothing is imported."""
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    return loaded or PathFinder.find_spec(module, [*sys.path, os.path.realpath(os.getcwd())])


def _find_module(module: str) -> str:
    return f"run in the folder that has {module}.py, put that folder on PYTHONPATH"


class HostedSource(NamedTuple):
    """What workers need to play a task: how its environment is made, and what it is held to."""

    source: EnvSource
    limits: EnvLimits

    def portable(self) -> "HostedSource":
        return self._replace(source=self.source.portable())


class Lent(NamedTuple):
    """A live environment that stays its owner's: closing what is built from it leaves it open."""

    env: Any

    def __call__(self) -> Any:
        import gymnasium

        class Kept(gymnasium.Wrapper):
            def close(self) -> None: ...

        return Kept(self.env)


def _why_not_portable(source: EnvSource) -> str:
    """Empty where nothing speaks against it."""
    if isinstance(source.make, Lent):
        return "what was set on it would be lost"
    if source.make is not None:
        module, _, name = source.base.partition(":")
        if "<lambda>" in name or "<locals>" in name:
            return "lambda" if "<lambda>" in name else "a local function"
        if module == "__main__":
            return "defined in __main__"
        if _look_up(module, name) is not source.make:
            return f"a {type(source.make).__name__} that cannot be imported"
    try:
        json.dumps(source.options)
    except (TypeError, ValueError) as error:
        return f"options are not plain data: {error}"
    return ""


def _look_up(module: str, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None


def _find_factory(name: str) -> Callable[..., Any] | None:
    """What "module:function" names; None where the name is an id of Gymnasium, whose module it then has imported."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return None
    if "/" in module or module.startswith(".") or (module.endswith(".py") and os.path.isfile(module)):
        raise EnvNotMade(FIELD, "names a path, not a module", repr(name), meant(name) or "write module:function")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    importlib.import_module(module)
    import gymnasium

    found = _look_up(module, attribute)
    if callable(found):
        return found
    if attribute in gymnasium.registry or not attribute.replace(".", "_").isidentifier():
        return None
    if module == "__main__":
        what = "other programs cannot import what a script defines in __main__"
        raise EnvNotMade(FIELD, what, repr(name), "put it into a module file and give module:name")
    what = f"module '{module}' has no function '{attribute}'"
    raise EnvNotMade(FIELD, what, repr(name), did_you_mean(attribute, dir(sys.modules[module])))


def require_env(env: Any, name: str) -> Any:
    """The environment, as one of Gymnasium's."""
    import gymnasium

    if isinstance(env, gymnasium.Env):
        return env
    from asap.envs.jax_native.interface import JaxSource, require_stepping

    require_stepping(env, name)
    if (found := JaxSource.of(env)) is not None:
        from asap.envs.jax_native.exported import HostedJaxEnv

        return HostedJaxEnv(found, name)
    if isinstance(env, gymnasium.vector.VectorEnv):
        cure = "pass one environment; workers play several at once"
        raise EnvNotMade(FIELD, "a vector environment cannot be played", name, cure)
    is_old_gym = any(cls.__module__.split(".")[0] == "gym" for cls in type(env).__mro__)
    cure = "wrap with shimmy" if is_old_gym else "pass an id, a gymnasium.Env or a function that returns one"
    raise EnvNotMade(FIELD, f"not a gymnasium.Env but {type(env).__name__}", name, cure)


def _explain(name: str, error: BaseException) -> EnvNotMade:
    """An error from the making of an environment, in one line."""
    import gymnasium

    said = message_of(error)
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        return EnvNotMade(FIELD, f"'{name}' needs a package that is not installed", cure=said)
    if isinstance(error, ModuleNotFoundError):
        cure = f"pip install what provides '{error.name}'"
        if name.startswith(f"{error.name}:"):
            cure = meant(name) or f"check the spelling, {_find_module(str(error.name))}, or pip install it"
        return EnvNotMade(FIELD, f"'{name}' needs the module '{error.name}', which is not installed", cure=cure)
    return EnvNotMade(FIELD, f"making '{name}' raised {type(error).__name__}: {said}"[:400])
