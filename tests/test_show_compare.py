"""Promise: methods, seeds and policies stand side by side, each with its name; reports hold every claim and picture."""

import base64
import itertools
import re
from html.parser import HTMLParser

import jax.numpy as jnp
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.quiver import Quiver
from matplotlib.text import Text

from asap.base.errors import UserError
from asap.base.stats import SeedCurve, common_grid, iqm, resample
from asap.envs.catalog import find
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GibbsSkills
from asap.show.figures import compare_curves, partition_gallery, strip_plot
from asap.show.figures.palette import METHOD_COLOURS, SKILL_COLOURS, method_colour, method_line_style, skill_colour
from asap.show.pages.report import COLUMNS, Chapter, report_html, results_markdown

TWO_ROOMS, FLIPPED = find("two-rooms"), find("flipped-two-rooms")
REFERENCE = TWO_ROOMS.reference


def curves(top, num_seeds=4, end=300):
    episodes = np.arange(0, end, 10)
    return [SeedCurve(episodes, top + s - (400 + top) * np.exp(-episodes / (20 + 2 * s))) for s in range(num_seeds)]


def policy(*beta):
    theta = np.log(np.random.default_rng(0).dirichlet(np.ones(4), size=2 ** len(beta)))[..., None]
    partition = Partition(jnp.asarray(beta, jnp.float32), jnp.float32(20))
    psi, phi = Features.of(Polynomial(1), (0, 1)), Features.of(Polynomial(0), (0,))
    return ASAPPolicy(partition, GibbsSkills(jnp.asarray(theta, jnp.float32), jnp.float32(1)), psi, phi)


AT_THE_WALL, HORIZONTAL = policy((-2.5, 5, 0)), policy((-0.5, 0, 1))
FOUR = policy((-0.5, 1, 0), (-0.5, 0, 1))
METHODS = {"ASAP": curves(55), "one skill": curves(-300), "approximately optimal partition": curves(50, end=200)}
MANY = {f"method {i}": curves(40 + i, num_seeds=2) for i in range(8)}
TIMES = {"ASAP": [100, 200, 300, None], "a fixed partition": [400.0, None, None, None], "transfer": [10, 20, 40]}


def thick(axes):
    return [line for line in axes.lines if line.get_linewidth() > 2]


def at(text, axes):
    """The value that a label at the right points to."""
    low, high = axes.get_ylim()
    return low + text.xy[1] * (high - low)


def test_each_method_has_its_mean_its_seeds_and_its_label():
    near, whole = compare_curves(METHODS, REFERENCE, "2R").axes
    for axes in (near, whole):
        assert [(line.get_color(), line.get_linestyle()) for line in thick(axes)] == [
            (METHOD_COLOURS[0], "-"), (METHOD_COLOURS[1], "--"), (METHOD_COLOURS[2], ":")
        ]  # fmt: skip
        assert sum(line.get_linewidth() == 0.5 for line in axes.lines) == 12
        grid = common_grid(METHODS["ASAP"])
        expected = np.stack([grid, iqm(resample(METHODS["ASAP"], grid))], -1)
        np.testing.assert_allclose(thick(axes)[0].get_xydata(), expected)
    assert "4 seeds" in near.get_title("left")
    # A method is named where it ends: near the top in the enlarged panel, otherwise in the whole one.
    labels = {text.get_text().replace("\n", " "): (text, axes) for axes in (near, whole) for text in axes.texts}
    for (name, axes), line in zip([("ASAP", near), ("one skill", whole)], thick(whole)):
        text, where = labels[name]
        assert where is axes and at(text, axes) == pytest.approx(line.get_ydata()[-1])
        assert matplotlib.colors.to_hex(text.arrow_patch.get_edgecolor()).upper() == line.get_color()
    assert labels["approximately optimal partition"][1] is near


def test_a_lucky_seed_among_methods_is_not_enlarged():
    lucky = [*curves(-300), *curves(55, num_seeds=1)]
    assert len(compare_curves({"lucky": lucky, "stuck": curves(-300)}, REFERENCE).axes) == 1
    assert len(compare_curves({"lucky": lucky}, REFERENCE).axes) == 2


def test_of_many_methods_each_has_a_panel_with_the_first_one_in_it():
    figure = compare_curves(MANY, between=(("random play", -400.0), ("solved", 40.0)))
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == list(MANY)[1:]
    for index, axes in enumerate(panels, 1):
        for line, name in zip(thick(axes), ("method 0", f"method {index}"), strict=True):
            np.testing.assert_allclose(line.get_ydata(), iqm(resample(MANY[name], common_grid(MANY[name]))))
        assert {-400.0, 40.0} <= {line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1}
    assert "method 0" in figure.get_supxlabel() and "solved: 40" in figure.get_supxlabel()


def test_references_are_drawn_where_their_labels_point():
    near, whole = compare_curves(METHODS, REFERENCE).axes
    for axes, words, value in (
        (near, "near-optimal", REFERENCE.near_optimal),
        (near, "approximately optimal: 53.1", REFERENCE.approx_optimal),
        (near, "dynamic-programming", REFERENCE.dp_optimal),
        (whole, "misspecified start", REFERENCE.misspecified),
    ):
        (text,) = [text for text in axes.texts if text.get_text().startswith(words)]
        assert at(text, axes) == pytest.approx(value)
        assert any(np.allclose(line.get_ydata(), value) for line in axes.lines)


def test_one_panel_without_reference_or_far_from_it():
    assert len(compare_curves(METHODS).axes) == 1
    (stuck,) = compare_curves({"stuck": curves(-300)}, REFERENCE).axes
    assert len(stuck.texts) == 5
    (axes,) = compare_curves(METHODS, ylabel="gradient").axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("gradient", "episodes")


def test_methods_differ_in_colour_and_in_line_from_their_neighbours():
    assert not set(METHOD_COLOURS) & set(SKILL_COLOURS)
    assert len({(method_colour(i), method_line_style(i)) for i in range(16)}) == 16
    assert all(method_line_style(i) != method_line_style(i + 1) for i in range(7))


def test_a_gallery_has_a_map_per_policy_and_one_legend():
    figure = partition_gallery([AT_THE_WALL, HORIZONTAL], [TWO_ROOMS, FLIPPED], ["before", "after"], "transfer")
    assert [axes.get_title("left") for axes in figure.axes] == ["before", "after"]
    assert figure.get_suptitle() == "transfer"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["skill 0", "skill 1"]
    colours = [matplotlib.colors.to_hex(patch.get_facecolor()).upper() for patch in legend.get_patches()]
    assert colours == [skill_colour(0), skill_colour(1)]
    # Walls as the tasks have them, the planes as the policies: at x = 0.5 and at y = 0.5; arrows on both.
    assert [axes.lines[0].get_ydata().tolist() for axes in figure.axes] == [
        pytest.approx([0.0, 0.7]), pytest.approx([0.0, 0.0])
    ]  # fmt: skip
    for i, axes in enumerate(figure.axes):
        (plane,) = [c for c in axes.collections if not isinstance(c, Quiver)]
        np.testing.assert_allclose(plane.get_paths()[0].vertices[:, i], 0.5, atol=1e-3)
        assert len(axes.findobj(Quiver)) == 1


def test_skills_of_every_panel_are_in_the_legend_and_those_without_area_in_none():
    policies = [AT_THE_WALL, FOUR, policy((1, 0, 0), (-0.5, 1, 0))]
    figure = partition_gallery(policies, [TWO_ROOMS] * 3, ["a", "b", "c"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"skill {s}" for s in range(4)]
    alone = partition_gallery(policies[2:], [TWO_ROOMS], ["c"])
    assert [text.get_text() for text in alone.legends[0].get_texts()] == ["skill 1", "skill 3"]


def test_ticks_stand_only_at_the_outer_edge():
    axes = partition_gallery([AT_THE_WALL] * 5, [TWO_ROOMS] * 5, list("abcde"), columns=3).axes
    assert len(axes) == 5
    assert [len(a.get_yticks()) > 0 for a in axes] == [True, False, False, True, False]
    assert [len(a.get_xticks()) > 0 for a in axes] == [False, False, True, True, True]
    assert [a.get_xlabel() for a in axes] == ["", "", "x (m)", "x (m)", "x (m)"]


def test_few_panels_are_larger_than_many():
    def inches(count):
        figure = partition_gallery([AT_THE_WALL] * count, [TWO_ROOMS] * count, ["seed"] * count)
        return [axes.get_position().width * figure.get_figwidth() for axes in figure.axes]

    np.testing.assert_allclose(inches(2), [3.2] * 2)
    np.testing.assert_allclose(inches(10), [1.9] * 10)


def test_dots_are_the_seeds_and_failures_are_counted():
    figure = strip_plot(TIMES, "episodes", "how long", log=True, marks={"paper": 50.0})
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(TIMES)
    for row, (dots, values) in enumerate(zip(axes.collections, TIMES.values())):
        x, y = np.asarray(dots.get_offsets()).T
        assert x.tolist() == [value for value in values if value is not None]
        assert (np.abs(y - row) < 0.2).all()
    words = [text.get_text() for text in axes.texts]
    # The fixed partition failed more often than not: it has no median. In ASAP's, the failure counts as the worst.
    assert words == ["250", "1 of 4 failed", "3 of 4 failed", "20", "paper: 50"]
    assert [line.get_xdata()[0] for line in axes.lines] == [250, 20, 50.0]
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "episodes"
    mark = axes.texts[-1].xy[0]
    assert mark == pytest.approx(axes.transAxes.inverted().transform(axes.transData.transform((50, 0)))[0])


def test_dots_are_the_same_every_time():
    first, second = (strip_plot(TIMES, "episodes").axes[0].collections[0].get_offsets() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first[:, 1])) == 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda: compare_curves(METHODS, REFERENCE, "a title"),
        lambda: compare_curves(MANY, REFERENCE, "a title"),
        lambda: compare_curves({"stuck": curves(-300), "too": curves(-301)}, REFERENCE),
        lambda: partition_gallery([AT_THE_WALL] * 2, [TWO_ROOMS] * 2, ["before", "after"], "a title"),
        lambda: partition_gallery([FOUR] * 7, [TWO_ROOMS] * 7, ["a title so long that it is broken"] * 7, "a title"),
        lambda: strip_plot(TIMES, "episodes", "a title", marks={"the paper's": 100, "our own": 110, "a bound": 112}),
        lambda: strip_plot({"a name so long that it has to be broken": [1, 2]}, "episodes", log=True, marks={"end": 2}),
    ],
    ids=["curves", "many", "stuck", "two maps", "seven maps", "dots", "few dots"],
)
def test_no_text_is_cut_off_and_no_labels_overlap(draw):
    figure = draw()
    FigureCanvasAgg(figure).draw()
    texts = [*figure.texts, *(text for legend in figure.legends for text in (*legend.texts, legend.get_title()))]
    for axes in figure.axes:
        titles = [t for t in axes.get_children() if isinstance(t, Text) and t not in axes.texts]
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        visible = [t for t, at in zip(ticks, [*axes.get_xticks(), *axes.get_yticks()]) if inside(axes, t, at)]
        texts += [*axes.texts, *titles, *visible, axes.xaxis.label, axes.yaxis.label]
    # The box of the words alone: that of an annotation has its line in it, too.
    boxes = {text: Text.get_window_extent(text) for text in texts if text.get_text()}
    for text, box in boxes.items():
        assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0 and box.y1 <= figure.bbox.y1, text
    assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]


def inside(axes, tick, value):
    low, high = sorted(axes.get_xlim() if tick in axes.get_xticklabels() else axes.get_ylim())
    return low <= value <= high


def test_wrong_inputs_are_refused_with_a_cure():
    with pytest.raises(UserError, match="at least one"):
        compare_curves({})
    with pytest.raises(UserError, match="at least one"):
        strip_plot({}, "episodes")
    with pytest.raises(UserError, match="log=False"):
        strip_plot({"a": [0, 1]}, "episodes", log=True)
    with pytest.raises(UserError, match="as many of each"):
        partition_gallery([AT_THE_WALL], [TWO_ROOMS], [])


def row(claim, passed=True, note="", ci=None):
    return {"claim": claim, "paper": "about 1|2", "ours": "1 < 2", "ci": ci, "seeds": 20, "pass": passed, "note": note}


PNG = {"fig/a b.png": b"\x89PNG first", "fig/c.png": b"\x89PNG second"}
CHAPTERS = [
    Chapter(
        "fig2a",
        "Two Rooms: <ASAP>",
        [row("ASAP is as good", ci=[51.23456, 55.0]), row("a|b & <c>", False, "the start\nis <far>")],
        [("fig/a b.png", 'return of "ASAP" [20 seeds]')],
        ["asap train two-rooms --set a=1 && true", "asap reproduce fig2a"],
        83.4,
    ),
    Chapter("fig1f", "Partition", [row("the plane is at the wall", note="K = 1")], [("fig/c.png", "map")], [], 600.0),
]
HEADER = {"version": "1.0", "platform": "Linux <x86>", "seeds": "20"}


def test_markdown_has_a_row_per_claim_and_says_what_failed():
    text = results_markdown(CHAPTERS, HEADER)
    first, *lines = text.splitlines()
    assert "Generated by `asap reproduce`" in first and "not to be edited by hand" in first
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    assert len(cells) == 2 + 3 and {len(line) for line in cells} == {7}
    assert [[cell.strip() for cell in line] for line in cells[2:4]] == [
        ["[fig2a](#fig2a)", "ASAP is as good", r"about 1\|2", "1 &lt; 2", "51.2 to 55", "20", "yes"],
        ["[fig2a](#fig2a)", r"a\|b & &lt;c>", r"about 1\|2", "1 &lt; 2", "", "20", "**no**"],
    ]
    assert "2 of 3 claims reproduced. Not reproduced:" in lines
    assert r"- [fig2a](#fig2a): a\|b & &lt;c>. The start is &lt;far>." in lines
    assert any("version: 1.0" in line and "seeds: 20" in line for line in lines)


def test_markdown_chapters_have_notes_pictures_commands_and_time():
    text = results_markdown(CHAPTERS, HEADER)
    _, first, second = text.split("\n## ")
    assert first.startswith("fig2a: Two Rooms: &lt;ASAP>\n") and second.startswith("fig1f: Partition\n")
    assert r'![return of "ASAP" \[20 seeds\]](fig/a%20b.png)' in first
    assert "```sh\nasap train two-rooms --set a=1 && true\nasap reproduce fig2a\n```" in first
    assert "This took 83 s." in first and "This took 10 min." in second
    assert "- the plane is at the wall. K = 1." in second and "```" not in second
    assert '<a id="fig1f"></a>' in text
    assert "\n1 of 1 claims reproduced.\n" in results_markdown(CHAPTERS[1:], {})


def html_of(chapters, pictures=PNG):
    return report_html(results_markdown(chapters, HEADER), pictures.__getitem__)


class Page(HTMLParser):
    """Collects tags; refuses what is closed in another order than it was opened."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._open = [], [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_a_film_keeps_its_kind_in_the_page():
    film = Chapter("fig2f", "A game", [], [("pictures/game.gif", "a game")], [], 1.0)
    assert 'src="data:image/gif;base64,' in html_of([film], {"pictures/game.gif": b"GIF89a"})
    assert "(pictures/game.gif)" in results_markdown([film], HEADER)


def test_html_is_one_file_with_every_picture_in_it():
    text = html_of(CHAPTERS)
    page = Page(text)
    assert "http" not in text and not page.all("script") and not page.all("link")
    prefix = "data:image/png;base64,"
    sources = [image["src"] for image in page.all("img")]
    assert all(source.startswith(prefix) for source in sources)
    assert [base64.b64decode(source.removeprefix(prefix)) for source in sources] == list(PNG.values())
    assert [image["alt"] for image in page.all("img")] == ['return of "ASAP" [20 seeds]', "map"]
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))


def test_html_escapes_text_and_marks_what_failed():
    text = html_of(CHAPTERS)
    page = Page(text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"c", "far", "asap", "x86"})
    assert {"a|b & <c>", "1 < 2", "fig2a: Two Rooms: <ASAP>"} <= set(page.words)
    assert any("version: 1.0; platform: Linux <x86>; seeds: 20" in words for words in page.words)
    assert [line.get("class") for line in page.all("tr")] == [None, None, "failed", None]
    (failed,) = re.findall('<tr class="failed">.*?</tr>', text, re.DOTALL)
    assert failed.endswith("<strong>no</strong></td>\n</tr>") and text.count(">yes</td>\n</tr>") == 2
    assert [cell["data-column"] for cell in page.all("td")] == 3 * list(COLUMNS)
    assert "2 of 3 claims reproduced. Not reproduced:" in page.words


def test_html_in_any_text_is_shown_as_text():
    evil = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
    rows = [{**row(evil, False, evil), "paper": evil, "ours": evil}]
    chapter = Chapter("fig1a", evil, rows, [("fig/c.png", evil)], [evil, "</code></pre><script>"], 1.0)
    page = Page(html_of([chapter]))
    assert not page.all("script") and len(page.all("img")) == 1 and "onerror" not in page.all("img")[0]
    assert [image["alt"] for image in page.all("img")] == [evil]
    raw = Page(report_html(f"# Results\n\n{evil}\n\nSee {evil}\n\n<script>alert(1)</script>\n", PNG.__getitem__))
    assert not raw.all("script") and not raw.all("img")


def test_html_tables_lead_to_the_chapters():
    page = Page(html_of(CHAPTERS))
    assert [heading["id"] for heading in page.all("h2") if "id" in heading] == ["fig2a", "fig1f"]
    assert {link["href"] for link in page.all("a")} == {"#fig2a", "#fig1f"}
