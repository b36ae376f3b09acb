"""The documents are true where a machine can see it: links lead somewhere, numbers exist, commands and options are known,
and README's programs run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import asap
import asap.cli
from asap.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_command(app).commands


def label(page: Path) -> str:
    return page.name


def anchors(page: Path) -> set[str]:
    """As the usual renderers of Markdown name them: lower case, punctuation gone, dashes for spaces."""
    text = page.read_text()
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    named = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return named | set(re.findall(r'<a id="([^"]+)"', text))


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith("https:"):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[here](#a-title) [gone](no.md) [lost](#nowhere) [far](https://semver.org)\n")
    assert broken_links(page) == ["no.md", "#nowhere"]


def test_errata_that_are_named_exist():
    known = set(re.findall(r"^\| (E\d+) \|", (ROOT / "docs/errata.md").read_text(), re.M))
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/*.py"), *PAGES]
    named = {number for path in files for number in re.findall(r"\berrata\s+(E\d+)", path.read_text())}
    assert len(known) == 21 and named and named <= known


def test_bad_inputs_name_tests_that_exist():
    table = (ROOT / "docs/bad-inputs.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", table, re.M)
    assert [int(number) for number, _ in rows] == [*range(1, 35), *range(37, 88)]
    named = {name.strip() for _, tests in rows for name in tests.split(",")}
    assert {name for name in named if not (ROOT / "tests" / f"{name}.py").is_file()} == set()


def shell_commands(text: str) -> list[str]:
    """Every `asap ...` in blocks of shell code and in code within sentences and tables."""
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]
    found = [*blocks, *re.findall(r"`([^`\n]+)`", text)]
    return [re.split(r"\s#|[\\|;]", line)[0].strip() for line in found if re.match(r"(\$ )?asap [a-z]", line)]


def unknown_words(line: str) -> list[str]:
    """The command or options of a line that `asap` does not know."""
    name, *words = shlex.split(line.removeprefix("$ "))[1:]
    if name not in COMMANDS:
        return [name]
    known = {flag for option in COMMANDS[name].params for flag in (*option.opts, *option.secondary_opts)}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [word for word in given if word not in {*known, "--help", "-h"}]


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_commands_and_options_exist(page):
    wrong = {line: unknown_words(line) for line in shell_commands(page.read_text())}
    assert {line: words for line, words in wrong.items() if words} == {}


def test_an_unknown_option_is_found():
    lines = shell_commands("`asap train X --sides 3`\n```sh\nasap tran X  # why\nasap plot RUN --out DIR\n```")
    assert [unknown_words(line) for line in lines] == [["tran"], [], ["--sides"]]


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {asap.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert asap.__version__.removesuffix(".dev0") in (ROOT / "CHANGELOG.md").read_text()


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.S)


def run(program: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_of_the_readme_is_learned_and_used_elsewhere(tmp_path):
    """As a reader would: train it, and load the model in a program that does not know the environment."""
    _, own, elsewhere = python_blocks(README)
    (tmp_path / "thermostat.py").write_text(own)
    printed = run("thermostat.py", tmp_path)
    assert re.search(r"if room .*outside > .* then heater off", printed)
    other = tmp_path / "another program"
    other.mkdir()
    (tmp_path / "thermostat.asap").rename(other / "thermostat.asap")
    (other / "use.py").write_text(f"{elsewhere}\nprint(action)")
    assert run("use.py", other) == "1\n"
