"""Documents, examples and --help are in plain English: the field's own words, and sentences of at most 30 words.

Blocks of code are no English. Tables have the field's words, too, but are no sentences.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import asap.cli  # noqa: F401 - Adds the commands.
from asap.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
COMMANDS = typer.main.get_command(app).commands
MOST_WORDS = 30

# Words of our own making, where the field has one: see the style in CONTRIBUTING.md.
PRIVATE = (
    r"borders?",
    r"crews?",
    r"keepers?",  # A goalkeeper is one word.
    r"told",
    r"ways",
    r"(to|with) the same bits",
    r"go(es)? on with",
    r"looked at",
    r"seeds decide",
    r"has others play",
    r"wavers?",
    r"gives? out",
    r"numbers to read",
    r"what the data say",
    r"what playing says",
    r"called solved",
)
PRIVATE_WORDS = re.compile(rf"\b({'|'.join(PRIVATE)})\b", re.IGNORECASE)
SOCCER_WORDS = ("keeper", "keepers")  # In soccer they are the field's own.


# ---- Reading ------------------------------------------------------------------------------------------------------


def english(markdown: str) -> str:
    """Without blocks of code and comments; code within a sentence is one word, a link is what it shows."""
    text = re.sub(r"^( *)```.*?^ *```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"(`+).+?\1", "CODE", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)


def blocks(markdown: str) -> Iterator[str]:
    """Paragraphs and list items, each on one line; headings and tables are left out."""
    lines: list[str] = []
    for line in [*english(markdown).splitlines(), ""]:
        stripped = line.strip().lstrip("> ")
        is_item = re.match(r"([-*+]|\d+[.)])\s", stripped)
        is_apart = not stripped or stripped.startswith(("#", "|")) or re.fullmatch(r"[-=*_]{3,}", stripped)
        if (is_item or is_apart) and lines:
            yield " ".join(lines)
            lines = []
        if not is_apart:
            lines.append(re.sub(r"^([-*+]|\d+[.)])\s+", "", stripped))


def sentences(markdown: str) -> Iterator[str]:
    """A sentence ends with . ! or ? before a space and anything but a small letter."""
    for block in blocks(markdown):
        yield from re.split(r"""(?<=[.!?])["'”)\]*_]*\s+(?![a-z])""", block)


def words(sentence: str) -> list[str]:
    return [word for word in sentence.split() if re.search(r"\w", word)]


def long_sentences(markdown: str) -> list[str]:
    return [sentence for sentence in sentences(markdown) if len(words(sentence)) > MOST_WORDS]


def private_words(markdown: str, allowed: tuple[str, ...] = ()) -> list[str]:
    text = " ".join(english(markdown).replace("CODE", "").split())
    found = (match.group().lower() for match in PRIVATE_WORDS.finditer(text))
    return [word for word in found if word not in allowed]


def docstrings(source: str) -> str:
    nodes = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    return "\n\n".join(filter(None, map(ast.get_docstring, nodes)))


def help_of(name: str) -> str:
    """A command's own help and that of each option, as paragraphs."""
    command = COMMANDS[name]
    options = (getattr(option, "help", None) for option in command.params)
    return "\n\n".join(textwrap.dedent(text) for text in (command.help, *options) if text)


# ---- The reader itself --------------------------------------------------------------------------------------------


def test_a_sentence_of_31_words_is_found_and_one_of_30_is_not():
    most = "Begin " + " ".join(["word"] * 28) + " end."
    assert long_sentences(f"{most} {most}\n\n{most}") == []
    longer = most.replace("word", "one word", 1)
    assert (len(words(most)), len(words(longer))) == (30, 31)
    assert long_sentences(f"Short. {longer} Short.") == [longer]
    joined = f"{most[:-1]}; more"
    assert long_sentences(f"{joined}: of it.") == [f"{joined}: of it."]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It works. Does it? Yes!", ["It works.", "Does it?", "Yes!"]),
        ("At 0.5 it ends: one; two.", ["At 0.5 it ends: one; two."]),
        ("Some names (e.g. this one) are short. Others not.", ["Some names (e.g. this one) are short.", "Others not."]),
        ('He said "go." Then *it went.* `asap` ran.', ['He said "go.', "Then *it went.", "CODE ran."]),
        ("Over two\nlines. And\none more.", ["Over two lines.", "And one more."]),
        (
            "Two:\n\n- one item\n  with a tail\n- another\n1. third",
            ["Two:", "one item with a tail", "another", "third"],
        ),
        ("# A title\nText.\n\n| a | b |\n|---|---|\n| c. D | e |\n\n> Quoted.", ["Text.", "Quoted."]),
        ("Before.\n\n```sh\nasap train. Not English\n```\n\nAfter.", ["Before.", "After."]),
        ("See [the page](docs/x.md). ![Picture](x.png)", ["See the page."]),
        ("Run `asap train a b c`.", ["Run CODE."]),
    ],
)
def test_sentences_are_told_apart(text, wanted):
    assert list(sentences(text)) == wanted


def test_signs_are_no_words():
    assert len(words("a + b = 3 %, - of x|y")) == 5


def test_private_words_are_found_in_sentences_and_tables_but_not_in_code():
    assert private_words("It goes\non with a run.\n\n| who | told |\n\n`border`\n```\ncrew\n```\n") == [
        "goes on with",
        "told",
    ]
    assert private_words("A goalkeeper, always, on the boundary, sideways.") == []
    assert private_words("The keeper dives.") == ["keeper"] and private_words("The keeper dives.", SOCCER_WORDS) == []


def test_docstrings_and_options_are_read():
    assert docstrings('"""One."""\ndef f():\n    """Two."""\n    "three"\n') == "One.\n\nTwo."
    assert "Train on one task" in help_of("train") and "K; there are 2^K skills." in help_of("train")


# ---- What is read -------------------------------------------------------------------------------------------------


def checked(text: str, allowed: tuple[str, ...] = ()) -> None:
    assert (private_words(text, allowed), long_sentences(text)) == ([], [])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page):
    checked(page.read_text(), SOCCER_WORDS if "soccer" in page.name else ())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_docstrings_of_examples_are_plain(example):
    checked(docstrings(example.read_text()))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_plain(name):
    checked(help_of(name))
