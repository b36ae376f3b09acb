"""Ids in Gymnasium's registry, and what was meant by those that are not in it."""

import difflib
from collections.abc import Iterable

from asap.base.errors import UserError


def require_registered(name: str) -> None:
    """Asked before Gymnasium is, whose answer may be several lines long. Without a version, it takes the newest."""
    import gymnasium

    gymnasium_id = name.rpartition(":")[2]
    if gymnasium_id not in gymnasium.registry and not any(_stem(known) == gymnasium_id for known in gymnasium.registry):
        raise UserError("env", f"'{name}' is not registered", cure=_nearest(gymnasium_id))


def _nearest(gymnasium_id: str) -> str:
    """The cure for an unknown id: its newest version, the id most like it, or the package that may be missing."""
    import gymnasium

    known = gymnasium.registry.values()
    versions = [spec for spec in known if _stem(spec.id) == _stem(gymnasium_id) != ""]
    if versions:
        return f"did you mean '{max(versions, key=lambda spec: spec.version or 0).id}'?"
    namespace, slash, _ = gymnasium_id.rpartition("/")
    if slash and not any(spec.namespace == namespace for spec in known):
        return f"name the module that registers '{namespace}' too, as in 'module:{gymnasium_id}'"
    return did_you_mean(gymnasium_id, gymnasium.registry) or "list what there is with gymnasium.pprint_registry()"


def _stem(gymnasium_id: str) -> str:
    """Without the version; empty if there is none."""
    return gymnasium_id.rpartition("-v")[0]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else ""
