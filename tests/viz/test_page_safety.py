"""A page shows titles and names as they are, and its browser runs nothing but the page's own script."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import matplotlib
import pytest
import torch
from matplotlib.texmanager import TexManager

from hgeo.viz import attention_figure, curves_figure, embedding_figure, embedding_page, save_figure, save_page

NASTY = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>-->",
    "@DATA@ @SCRIPT@ @NOBODY@ \\g<0> \\1",
    "a & b &lt; &#60; 'c' \"d\"",
    "line\u2028and\u2029paragraph",
    "κ ⊕ 😀",
    "$\\frac{1}{$",
]
POINTS = 0.1 * torch.eye(len(NASTY), dtype=torch.float64)[:, :2] + 0.2
LABELS = torch.arange(len(NASTY))


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, and the text in each."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open, self.comments = [], {}, [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "input"):  # which have no end
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, text):
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + text

    def handle_comment(self, text):
        self.comments.append(text)

    def find(self, tag, **wanted):
        """(attributes, text) of every such element."""
        return [
            (attributes, self.texts.get(place, ""))
            for place, (name, attributes) in enumerate(self.elements)
            if name == tag and wanted.items() <= attributes.items()
        ]


def a_page(**options):
    return embedding_page(POINTS, labels=LABELS, class_names=NASTY, **options)


def the_data(page):
    ((_, text),) = Page(page).find("script", type="application/json")
    return json.loads(text)


def sha256(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_names_come_out_of_the_page_as_they_went_in():
    assert [kind["name"] for kind in the_data(a_page())["classes"]] == NASTY


@pytest.mark.parametrize("title", NASTY)
def test_a_title_comes_out_of_the_page_as_it_went_in_and_changes_nothing_else(title):
    page, plain = Page(a_page(title=title)), Page(a_page(title="plain"))
    assert [text for _, text in page.find("title") + page.find("h1")] == [title, title]
    assert the_data(a_page(title=title)) == the_data(a_page(title="plain"))
    assert page.elements == plain.elements  # no element, no attribute more or less
    assert page.comments == []


def test_the_data_hold_no_letter_that_could_be_markup():
    ((_, text),) = re.findall(r'<script id="data" (type="application/json")>(.*?)</script>', a_page(), re.DOTALL)
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()


def test_the_policy_allows_the_pages_own_style_and_script_by_their_hashes_and_nothing_else():
    page = Page(a_page())
    ((policy, _),) = page.find("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = {name: sources for name, *sources in (rule.split() for rule in policy["content"].split(";"))}
    ((_, style),) = page.find("style")
    ((_, script),) = [found for found in page.find("script") if "type" not in found[0]]
    assert rules == {
        "default-src": ["'none'"],
        "style-src": [sha256(style)],
        "script-src": [sha256(script)],
        "base-uri": ["'none'"],
    }


def test_the_content_security_policy_stands_before_everything_that_it_covers():
    tags = [(tag, "http-equiv" in attributes) for tag, attributes in Page(a_page()).elements]
    assert tags[:4] == [("html", False), ("head", False), ("meta", False), ("meta", True)]


def test_no_element_has_a_style_a_handler_or_an_address_of_its_own():
    names = {name for _, attributes in Page(a_page()).elements for name in attributes}
    assert not [name for name in names if name == "style" or name.startswith("on") or name in ("src", "href")]


def test_the_script_makes_text_of_data_never_markup():
    ((_, script),) = [found for found in Page(a_page()).find("script") if "type" not in found[0]]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|cssText", script)


def test_a_saved_page_is_the_page_whatever_ends_a_line_here(tmp_path):
    assert save_page(a_page(), tmp_path / "page.html").read_bytes() == a_page().encode()
    assert "\r" not in a_page()


@pytest.mark.parametrize("lost", [float("nan"), float("inf")])
@pytest.mark.parametrize("draw", [embedding_page, embedding_figure])
@pytest.mark.parametrize("dim", [2, 5])
def test_a_point_with_nan_coordinates_is_refused(draw, lost, dim):
    points = torch.zeros(4, dim)
    points[2, 1] = lost
    with pytest.raises(ValueError, match=r"1 of 4 points .* not finite, the first is point 2; .* leave them out"):
        draw(points)


def test_a_class_without_a_name_among_named_ones_is_refused():
    with pytest.raises(ValueError, match="class_names has 3 names, but there is a point of class 3"):
        embedding_page(POINTS, labels=LABELS, class_names=NASTY[:3])


def pictures():
    row = {"epoch": 0, "loss": 1.0, "val_loss": 1.0, "val_accuracy": 0.5}
    yield "embedding", lambda title: embedding_figure(POINTS, labels=LABELS, class_names=NASTY, title=title)
    yield "curves", lambda title: curves_figure([row, row], title=title)
    yield "attention", lambda title: attention_figure([], 0, title=title)


@pytest.mark.parametrize("title", NASTY)
@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, draw in pictures()])
@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")  # the font of pictures lacks some letters
def test_a_title_in_a_picture_is_shown_and_never_executed(tmp_path, draw, title):
    _, svg = save_figure(draw(title), tmp_path / "picture")
    root = ElementTree.parse(svg).getroot()
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        *("svg", "metadata", "RDF", "Work", "type", "title", "date", "format", "creator", "Agent"),
        *("defs", "style", "g", "path", "rect", "use", "clipPath"),
    }
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]


@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, draw in pictures()])
def test_a_title_is_never_read_as_tex(tmp_path, monkeypatch, draw):
    given = []
    monkeypatch.setattr(TexManager, "_run_checked_subprocess", lambda *command, **_: given.append(command))
    with matplotlib.rc_context({"text.usetex": True}):
        save_figure(draw(r"\immediate\write18{id}"), tmp_path / "picture")
    assert given == []
