"""The page in a real browser: round at first paint, moved by isometries, right about what is pointed at, no error."""

import importlib.util
import io
import shutil

import matplotlib.image
import numpy as np
import pytest
import torch

import hgeo
from hgeo.data import random_taxonomy
from hgeo.viz import embedding_page, save_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = [
    name
    for name, found in (
        ("chromium", CHROMIUM),
        ("chromedriver", DRIVER),
        ("selenium", importlib.util.find_spec("selenium")),
    )
    if not found
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} here"),
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


class Browser:
    """One window, and what tests ask of it."""

    def __init__(self, profile):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))

    def open(self, page, folder, width=1280, height=900):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.driver.get(save_page(page, folder / "page.html").as_uri())

    def say(self, script, *words):
        return self.driver.execute_script(f"return {script}", *words)

    def points(self):
        return torch.tensor(self.say("[Array.from(px), Array.from(py)]"), dtype=torch.float64).T

    def on_screen(self, point):
        return self.say("toScreen(arguments[0], arguments[1])", *map(float, point))

    def pointer(self, *steps):
        """("move", x, y), ("press",), ("release",) in the window's pixels, each at once."""
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        actions = ActionBuilder(self.driver, duration=0)
        for what, *place in steps:
            if what == "move":
                actions.pointer_action.move_to_location(*(round(value) for value in place))
            else:
                {"press": actions.pointer_action.pointer_down, "release": actions.pointer_action.pointer_up}[what]()
        actions.perform()

    def press(self, key):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(key).perform()

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(window):
    window.errors()
    yield window
    assert window.errors() == []


def example(space="ball:2", count=40):
    """Points, their manifold, and what a page of them shows."""
    manifold, dim = hgeo.space(space)
    generator = torch.Generator().manual_seed(0)
    points = hgeo.exp0(manifold, 0.5 * torch.randn(count, dim, generator=generator, dtype=torch.float64))
    ring = torch.stack([torch.arange(count), (torch.arange(count) + 1) % count])
    labels = torch.arange(count) % 3
    predicted = labels.clone()
    predicted[:4] = (labels[:4] + 1) % 3
    return (
        points,
        manifold,
        {
            "edge_index": torch.cat([ring, ring.flip(0)], dim=1),
            "attention": torch.linspace(0, 1, 2 * count),
            "labels": labels,
            "predicted": predicted,
            "class_names": ["ash", "birch", "cedar"],
        },
    )


def page(space="ball:2", **changes):
    points, manifold, shown = example(space)
    return embedding_page(points, manifold, title="trees", **{**shown, **changes})


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (500, 900), (1600, 500)])
def test_at_first_paint_the_disk_is_round_and_fills_the_window(browser, tmp_path, width, height):
    browser.open(page(), tmp_path, width, height)
    shot = matplotlib.image.imread(io.BytesIO(browser.driver.get_screenshot_as_png()))
    assert shot.shape[:2] == (height, width)
    dark = shot[..., :3].max(axis=2) < 0.75
    across = np.flatnonzero(dark[height // 2 - 1 : height // 2 + 1].any(axis=0))
    down = np.flatnonzero(dark[:, width // 2 - 1 : width // 2 + 1].any(axis=1))
    side = min(width, height) - 28
    assert across[-1] - across[0] == pytest.approx(side, abs=3)
    assert down[-1] - down[0] == pytest.approx(side, abs=3)


def test_a_drag_moves_points_by_the_isometry_that_carries_the_pointer_along_its_geodesic(browser, tmp_path):
    browser.open(page(), tmp_path)
    before = browser.points()
    start, end = torch.tensor([[0.3, -0.2], [-0.25, 0.4]]).double()
    (ax, ay), (bx, by) = browser.on_screen(start), browser.on_screen(end)
    browser.pointer(("move", ax, ay), ("press",), ("move", bx, by), ("release",))
    # where the pointer was, in whole pixels
    centre, radius = torch.tensor(browser.say("[centreX, centreY]")), browser.say("radius")
    flip = torch.tensor([1.0, -1.0])
    a, b = ((torch.tensor(p).round() - centre) * flip / radius for p in ([ax, ay], [bx, by]))
    a, b = a.double(), b.double()
    add = hgeo.math.mobius_add
    way = add(-a, b, k=-1.0)
    expected = add(
        a.expand_as(before), add(way.expand_as(before), add((-a).expand_as(before), before, k=-1.0), k=-1.0), k=-1.0
    )
    after = browser.points()
    assert torch.allclose(after, expected, atol=1e-9)
    far = [hgeo.math.dist(p[:1], p[1:], k=-1.0) for p in (before, after)]
    assert torch.allclose(*far, rtol=1e-8)


def test_a_drag_turns_a_sphere(browser, tmp_path):
    browser.open(page("sphere:2"), tmp_path)

    def on_globe(p):
        squared = p.square().sum(1, keepdim=True)
        return torch.cat([2 * p * (1 - squared).sqrt(), 1 - 2 * squared], dim=1)

    before = on_globe(browser.points())
    x, y = browser.on_screen((0.1, 0.1))
    browser.pointer(("move", x, y), ("press",), ("move", x + 120, y - 60), ("release",))
    after = on_globe(browser.points())
    assert (after - before).norm(dim=1).min() > 0.01
    assert torch.allclose(before @ before.T, after @ after.T, atol=1e-9)


def test_pointing_at_a_node_tells_its_name_class_prediction_and_neighbours(browser, tmp_path):
    browser.open(page(), tmp_path)
    points = browser.points()
    for node in (0, 7):
        browser.pointer(("move", *browser.on_screen(points[node])))
        lines = browser.driver.find_element("id", "tip").text.splitlines()
        assert lines[0] == f"node {node}"
        assert lines[1] == ["ash", "birch", "cedar"][node % 3]
        assert lines[2] == ("predicted: birch" if node == 0 else "predicted right")
        assert lines[3] == "2 neighbours"
    # edge e leads from e to e + 1 with the weight e/79, and edge 40 + e back
    assert lines[5] == f"listens to node 8 {47 / 79:.2f}, node 6 {6 / 79:.2f}"


def test_a_click_lists_the_neighbours_and_a_click_on_one_brings_it_to_the_middle(browser, tmp_path):
    browser.open(page(), tmp_path)
    x, y = browser.on_screen(browser.points()[7])
    browser.pointer(("move", x, y), ("press",), ("release",))
    card = browser.driver.find_element("id", "card")
    first = card.find_element("tag name", "button")
    assert first.text.startswith("node 8")
    first.click()
    arrived = "Math.hypot(px[8], py[8]) < 1e-9"
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser.driver, 20).until(lambda _: browser.say(arrived))
    assert card.find_element("tag name", "h2").text == "node 8"


def test_the_wheel_walks_to_the_boundary_until_neighbours_there_are_apart(browser, tmp_path):
    far, turn = 1 - 1e-7, 2e-7
    pair = torch.tensor([[far, 0.0], [far * np.cos(turn), far * np.sin(turn)]], dtype=torch.float64)
    points = torch.cat([torch.zeros(1, 2, dtype=torch.float64), pair, -pair])  # their mean is in the middle
    browser.open(embedding_page(points, hgeo.PoincareBall(c=1.0).double()), tmp_path)
    before = browser.points()
    assert (before[1] - before[2]).norm() < 1e-5
    for _ in range(60):
        x, y = browser.on_screen(browser.points()[1])
        browser.say(
            "canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -120, clientX: arguments[0],\n"
            " clientY: arguments[1]}))",
            x,
            y,
        )
    after = browser.points()
    assert after[1].norm() < 0.2
    assert hgeo.math.dist(after[1], after[2], k=-1.0) == pytest.approx(
        float(hgeo.math.dist(before[1], before[2], k=-1.0)), rel=1e-4
    )
    assert (after[1] - after[2]).norm() > 0.1


def test_a_name_is_found_and_keys_do_what_the_page_says(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    tree = random_taxonomy(nodes=40, seed=0)
    parents = torch.full((40,), -1)
    parents[torch.from_numpy(tree.index[:, 0])] = torch.from_numpy(tree.index[:, 1])
    points, manifold, _ = example()
    browser.open(embedding_page(points, manifold, names=tree.names, parents=parents), tmp_path)
    browser.press("/")
    browser.press(tree.names[31])
    browser.press(Keys.ENTER)
    WebDriverWait(browser.driver, 20).until(lambda _: browser.say("Math.hypot(px[31], py[31]) < 1e-9"))
    way, node = [], int(parents[31])
    while node >= 0:
        way.append(tree.names[node])
        node = int(parents[node])
    assert [button.text for button in browser.driver.find_elements("css selector", "#card button")] == way
    browser.press(Keys.ARROW_LEFT)
    assert browser.say("px[31]") == pytest.approx(0.12)
    browser.press("+")
    assert browser.say("state.zoom") == 1.25
    browser.press("0")
    assert browser.say("state.zoom") == 1
    before = browser.say("[document.documentElement.className, colours.paper]")
    browser.press("d")
    after = browser.say("[document.documentElement.className, colours.paper]")
    assert {before[0], after[0]} == {"", "dark"}
    assert before[1] != after[1]
    browser.press(Keys.ESCAPE)
    assert browser.say("state.selected") == -1


def test_classes_and_right_predictions_can_be_hidden(browser, tmp_path):
    browser.open(page(), tmp_path)
    shown = "Array.from(shown).flatMap((on, i) => on ? [i] : [])"
    browser.driver.find_element("css selector", "#legend button").click()
    assert browser.say(shown) == [i for i in range(40) if i % 3]
    x, y = browser.on_screen(browser.points()[0])
    browser.pointer(("move", x, y))
    assert not browser.driver.find_element("id", "tip").text.startswith("node 0\n")
    browser.say("tools.mistakes.click()")
    assert browser.say(shown) == [1, 2]


def test_a_product_has_a_button_for_each_factor_and_each_moves_by_its_own_isometries(browser, tmp_path):
    browser.open(page("ball:2 x sphere:2 x euclidean:3"), tmp_path)
    buttons = browser.driver.find_elements("css selector", "#factors button")
    assert [button.text.split(",")[0] for button in buttons] == ["hyperbolic", "spherical", "flat"]
    buttons[2].click()
    before = browser.points()
    x, y = browser.on_screen((0.0, 0.0))
    browser.pointer(("move", x, y), ("press",), ("move", x + 50, y), ("release",))
    step = browser.points() - before
    assert torch.allclose(step, torch.tensor([50.0 / browser.say("radius"), 0.0]).double().expand(40, 2))


def test_twenty_thousand_nodes_are_drawn_and_dragged(browser, tmp_path):
    count = 20_000
    generator = torch.Generator().manual_seed(0)
    points = hgeo.exp0(hgeo.PoincareBall(c=1.0), torch.randn(count, 2, generator=generator, dtype=torch.float64))
    tree = torch.stack([torch.arange(1, count), torch.arange(1, count) // 2])
    browser.open(
        embedding_page(points, hgeo.PoincareBall(c=1.0), edge_index=tree, labels=torch.arange(count) % 7), tmp_path
    )
    before = browser.points()
    x, y = browser.on_screen((0.2, 0.1))
    browser.pointer(("move", x, y), ("press",), ("move", x - 90, y + 40), ("release",))
    assert (browser.points() - before).norm(dim=1).min() > 0
    shot = matplotlib.image.imread(io.BytesIO(browser.driver.get_screenshot_as_png()))[..., :3]
    colourful = shot.max(axis=2) - shot.min(axis=2) > 0.3
    assert colourful.sum() > 20_000
