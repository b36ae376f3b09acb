"""Rules as a stranger might send them, and a look at what reading each of them touches.

`python tests/hostile_rules.py FOLDER` reads each text in four ways in this process, under the audit hook of `hostile_files`, which
also hears what is compiled. It prints one JSON object for each text and way.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile_files import CANARY, MODULE, TOUCH, Watch, _main

SECRET = "a secret that no message may show"
NAMES = ["cart position", "cart velocity", "pole angle", "pole angular velocity"], ["push left", "push right"]
SHORT = [
    "--steps",
    "400",
    "--set",
    "learn.batch_episodes=2",
    "--set",
    "run.final_episodes=1",
    "--set",
    "run.eval_episodes=1",
]
BY = ("load_rules", "from_rules", "check", "train")
GOOD = "if pole angle > 0 then push right\notherwise push left\n"


def texts(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """By name: a text, and whether it is valid."""
    code = f"__import__('{MODULE}').make()"
    bad = {
        "a call": f"if {code} > 0 then push left\n",
        "a call in a number": f"if pole angle > {code} then push left\n",
        "a call in quotes": f'if "{code}" > 0 then push left\n',
        "a call in a percentage": f"if pole angle > 0 then push left ({code} %)\n",
        "a call as an action": f"otherwise {code}\n",
        "a call as a sum": f"lean = {code}\nif lean > 0 then push left\n",
        "a call in an index": f"if obs[{code}] > 0 then push left\n",
        "a lambda": f"if (lambda: {code})() > 0 then push left\n",
        "dunder names": "if obs.__class__.__base__.__subclasses__ > 0 then push left\n",
        "a dunder name for a skill": "__class__: push left\nif __dict__ > 0 then __class__\n",
        "a format string": "if {0.__class__.__init__.__globals__} > 0 then push left\n",
        "a format string in quotes": 'if "{0.__class__.__init__.__globals__} %s %n %(x)s" > 0 then push left\n',
        "a template": "if ${HOME} > $(touch canary) then `touch canary`\n",
        "an include": f"include {folder}/secret.txt\n{GOOD}",
        "an include of C": f'#include "{folder}/secret.txt"\nif x > 0 then push left\n',
        "an include in YAML": f"!!python/object/apply:{MODULE}.make []\n",
        "an import": f"from {MODULE} import make\n{GOOD}",
        "a path": f"{folder}/secret.txt\n",
        "a path as an action": f"if pole angle > 0 then {folder}/secret.txt\n",
        "an address": f"https://localhost:1/rules.txt\n{GOOD}",
        "a path up": "if ../../etc/passwd > 0 then push left\n",
        "a name without end": f"if {'a' * 900_000} > 0 then push left\n",
        "a number without end": f"if pole angle > {'9' * 90_000} then push left\n",
        "powers of powers": "if 9^9^9^9^9 > pole angle then push left\n",
        "a large power": "if pole angle^999999999 > 0 then push left\n",
        "brackets without end": f"if {'(' * 40_000}pole angle{')' * 40_000} > 0 then push left\n",
        "cases without end": "".join(f"{' ' * depth}if pole angle > 0\n" for depth in range(900)),
        "sums that double": "a0 = pole angle\n"
        + "".join(f"a{n + 1} = a{n} + a{n}*a{n}\n" for n in range(60))
        + "if a60 > 0 then push left\n",
        "sums of themselves": "a = b + 1\nb = a\nif a > 0 then push left\n",
        "planes without end": "".join(f"if pole angle > {n} then push left\n" for n in range(4000)),
        "letters that move the cursor": "if \x1b[2J\x1b]0;x\x07 > 0 then push left\n",
        "letters that turn the line": "if \u202epole angle\u202c > 0 then push left\n",
        "not finite": "if pole angle > nan then push left\n",
    }
    raw = {name: text.encode() for name, text in bad.items()}
    raw |= {
        "zeros": b"if pole\x00 angle > 0 then push left\n",
        "only zeros": b"\x00" * 100_000,
        "a pickle": b"cos\nsystem\n(S'touch canary'\ntR.",
    }
    raw |= {"other letters": b"if pole angle > 0 then \xff\xfe\n", "too long": b"# \n" * 2_000_000, "nothing": b""}
    good = {
        "a call in a comment": f"# {code} {{0.__class__}} %s\n{GOOD}",
        "dunder names that are ours": "__class__: push left\nif pole angle > 0 then push right\notherwise __class__\n",
    }
    return {name: (text, False) for name, text in raw.items()} | {
        name: (text.encode(), True) for name, text in good.items()
    }


class RulesWatch(Watch):
    """Hears also of code that is compiled, where the text of a stranger is in it."""

    def note(self, event: str, arguments: tuple) -> None:
        super().note(event, arguments)
        if self.is_on and event == "compile" and isinstance(arguments[0], (str, bytes)):
            source = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode(errors="replace")
            if MODULE in source or "touch canary" in source:
                self.touched.append(f"compile {source[:100]}")

    def look_at(self, read: Callable[[], Any], may_use: tuple[str, ...]) -> dict[str, Any]:
        """What it says, and what it touches beside these files."""
        self.touched, self.may_use = [], tuple(map(os.path.realpath, may_use))
        out, err = io.StringIO(), io.StringIO()
        self.is_on = True
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                end = read()
        finally:
            self.is_on = False
        said = out.getvalue() + err.getvalue() + str(end)
        return {
            "end": end if isinstance(end, int) else str(end),
            "said": said[:3000],
            "touched": sorted(set(self.touched)),
        }


def ways(path: Path, place: Path) -> Iterator[tuple[str, Callable[[], Any], tuple[str, ...]]]:
    import asap
    from asap.base.errors import UserError

    def error_of(make: Callable[[], Any]) -> Callable[[], Any]:
        def read() -> Any:
            try:
                make()
            except UserError as error:
                return f"error: {error}"
            return 0

        return read

    own, picture, run = str(path), str(place / "rules.png"), str(place / "run")
    text = path.read_bytes().decode(errors="replace")
    yield (
        "load_rules",
        error_of(lambda: asap.load_rules(path, observation_names=NAMES[0], action_names=NAMES[1])),
        (own,),
    )
    yield "from_rules", error_of(lambda: asap.ASAP.from_rules(text + "\n", *NAMES)), ()  # Of a text, no file at all.
    check = ["check", "CartPole-v1", "--rules", own, "--episodes", "2", "--out", picture]
    yield "check", lambda: _main(check), (own, str(place))
    yield "train", lambda: _main(["train", "CartPole-v1", "--rules", own, *SHORT, "--out", run]), (own, str(place))


def main() -> None:
    from asap.base import trust

    folder = Path(sys.argv[1]).resolve()
    os.chdir(folder)
    (folder / f"{MODULE}.py").write_text(TOUCH.format(canary=str(folder / CANARY)))
    (folder / "secret.txt").write_text(SECRET)
    trust.tag({})  # The user's key is made once.
    watch = RulesWatch(folder)
    for number, (name, (text, is_valid)) in enumerate(texts(folder).items()):
        path = folder / f"rules {number}.txt"
        path.write_bytes(text)
        (place := folder / f"of {number}").mkdir()
        for way, read, may_use in ways(path, place):
            row = {"text": name, "by": way, "valid": is_valid, **watch.look_at(read, may_use)}
            print(json.dumps({**row, "canary": (folder / CANARY).exists()}), flush=True)


if __name__ == "__main__":
    main()
