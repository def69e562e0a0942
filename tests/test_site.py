"""The built site in a real browser: every page opens without an error or a foreign request, and the explorer says what
``geodp.plan`` says.

The site is the one that the README's command builds in ``docs/_build``, or the folder that the variable ``GEODP_SITE`` names.
The browser is an installed Chromium. Nothing here is random.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import geodp
from geodp.files import parse_manifold
from geodp.manifolds.notation import Notation
from paper.ambient import AmbientLaplace

ROOT = Path(__file__).parent.parent
COMMAND = "python -m sphinx -W --keep-going -b html docs docs/_build"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def site() -> Path:
    named = os.environ.get("GEODP_SITE")
    folder = Path(named) if named else ROOT / "docs" / "_build"
    index = folder / "index.html"
    if named:
        assert index.exists(), f"GEODP_SITE names {folder}, which holds no site"
        return folder
    if not index.exists():
        pytest.skip(f"the site is not built: {COMMAND}")
    sources = [page for page in (ROOT / "docs").rglob("*") if page.is_file() and "_build" not in page.parts]
    if max(page.stat().st_mtime for page in sources) > (folder / "searchindex.js").stat().st_mtime:
        pytest.skip(f"the site is older than its sources: {COMMAND}")
    return folder


def pages(site: Path) -> list[Path]:
    found = sorted(page for page in site.rglob("*.html") if "_static" not in page.parts)
    assert len(found) > 25
    return found


# ---------------------------------------------------------------------- links, without a browser


class Links(HTMLParser):
    """What a page refers to, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.targets.append(values["href"])
        if tag in ("img", "script", "iframe", "source") and "src" in values:
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values["href"])


def test_every_link_leads_to_a_page_and_an_anchor_of_the_site(site: Path) -> None:
    parsed = {page.resolve(): Links(page.read_text()) for page in pages(site)}
    broken = []
    for page, links in parsed.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchors = parsed[file].anchors if file in parsed else set()
            if not file.exists() or (parts.fragment and file in parsed and unquote(parts.fragment) not in anchors | {""}):
                broken.append((page.name, target))
    assert not broken


def test_nothing_is_loaded_from_elsewhere_and_everything_loaded_exists(site: Path) -> None:
    for page in pages(site):
        for source in Links(page.read_text()).loaded:
            parts = urlsplit(source)
            assert not parts.scheme, (page.name, source)
            assert not parts.netloc, (page.name, source)
            assert (page.parent / unquote(parts.path)).resolve().exists(), (page.name, source)


def test_formulas_are_drawn_by_the_browser_and_not_left_as_text(site: Path) -> None:
    text = (site / "theory" / "sampler.html").read_text()
    assert text.count("<math") > 20
    assert not re.search(r"\$[^<$]{3,}\\[a-z]+[^<$]*\$", text)


# ---------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the site is tested with Playwright: pip install '.[dev]'")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A tab that keeps what went wrong in ``page.troubles``."""
    tab = browser.new_page(viewport={"width": 1280, "height": 1000})
    tab.troubles = []
    tab.on("console", lambda message: tab.troubles.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: tab.troubles.append(str(error)))
    tab.on("requestfailed", lambda request: tab.troubles.append(f"failed: {request.url}"))
    tab.on(
        "request", lambda request: tab.troubles.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    yield tab
    tab.close()


def test_every_page_opens_without_an_error_or_a_foreign_request(site: Path, page: Any) -> None:
    for file in pages(site):
        page.goto(file.resolve().as_uri())
        assert page.title(), file
        assert page.troubles == [], file
    page.goto((site / "index.html").resolve().as_uri() + "?nothing")
    page.evaluate("console.error('noticed')")
    assert page.troubles == ["noticed"]


FIELDS = ("sensitivity", "scale", "expected", "q50", "q90", "q95", "q99", "paper", "ambient", "advantage")


def set_sliders(page: Any, **values: int) -> None:
    for name, value in values.items():
        page.eval_on_selector(
            f"#explorer-{name}",
            "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }",
            str(value),
        )


def shown(page: Any) -> dict[str, str]:
    return {name: page.text_content(f"#explorer-{name}") for name in FIELDS}


def plan_of(manifold: str, radius: float, n: int, epsilon: float, delta: float | None) -> geodp.Plan:
    space = parse_manifold(manifold)
    return geodp.plan(geodp.Ball(space, space.origin, radius), n=n, epsilon=epsilon, delta=delta)


def paper_error(plan: geodp.Plan) -> float | None:
    """The expected error of the paper's mechanism with the paper's bound."""
    if "epsilon" not in (amounts := plan.privacy.parameters()) or "delta" in amounts:
        return None
    with contextlib.suppress(ValueError):  # the radius is too large for it
        paper = geodp.plan(plan.ball, plan.n, plan.epsilon, bound="reimherr2021", mechanism="intrinsic", law="laplace")
        return paper.expected_error
    return None


def ambient_error(plan: geodp.Plan) -> float | None:
    """The expected Euclidean length of the paper's ambient noise, where the paper has any."""
    if isinstance(plan.privacy, geodp.PureDP) and isinstance(plan.ball.manifold, geodp.Sphere | geodp.SPD):
        noise = AmbientLaplace(plan.ball, plan.n, plan.privacy.epsilon)
        return noise.dimension * noise.scale
    return None


def planned(plan: geodp.Plan) -> dict[str, str]:
    """What ``geodp.plan`` says, to four digits."""
    errors = (plan.expected_error, *plan.quantiles.values(), paper_error(plan), ambient_error(plan))
    numbers = (plan.sensitivity, plan.scale, *errors, plan.cost.advantage)
    return {name: "none" if x is None else f"{x:.4g}" for name, x in zip(FIELDS, numbers, strict=True)}


def same(found: dict[str, str], wanted: dict[str, str]) -> bool:
    """To the last digit; mean errors, which the library integrates across a kink, to a part in a thousand."""
    loose = {"expected": 1e-3, "paper": 1e-3}
    return all(
        found[name] == wanted[name]
        if "none" in (found[name], wanted[name])
        else math.isclose(float(found[name]), float(wanted[name]), rel_tol=loose.get(name, 0.0))
        for name in FIELDS
    )


def public_numbers(page: Any) -> tuple[str, float, int, float, float | None]:
    choice, delta = (
        page.eval_on_selector(f"#explorer-{name}", "select => select.selectedOptions[0].textContent")
        for name in ("manifold", "delta")
    )
    values = [page.text_content(f"#explorer-{name}-value") for name in ("radius", "n", "epsilon")]
    pure = delta.startswith("none")
    return choice.split(":")[0], float(values[0]), int(values[1]), float(values[2]), None if pure else float(delta)


def test_the_explorer_says_what_plan_says(site: Path, page: Any) -> None:
    page.goto((site / "explorer.html").resolve().as_uri())
    page.wait_for_selector("#geodp-explorer[data-ready=yes]")
    rng = np.random.default_rng(0)
    count = page.eval_on_selector("#explorer-manifold", "select => select.options.length")
    deltas = page.eval_on_selector("#explorer-delta", "select => select.options.length")
    seen = set()
    for choice in range(count):
        page.select_option("#explorer-manifold", str(choice))
        for i in range(8):
            page.select_option("#explorer-delta", str(0 if i < 4 else int(rng.integers(1, deltas))))
            set_sliders(page, epsilon=rng.integers(21), n=rng.integers(51), radius=rng.integers(101))
            public = public_numbers(page)
            plan = plan_of(*public)
            found = shown(page)
            assert same(found, planned(plan)), public
            assert page.text_content("#explorer-mechanism") == plan.noise.name, public
            for name, length in (("q95", plan.quantiles[0.95]), ("radius", plan.ball.radius)):
                said = re.fullmatch(r"\S+(?: \((.*)\))?", Notation(plan.ball.manifold).length(length))
                assert said is not None
                assert page.text_content(f"#explorer-{name}-unit") == (said[1] or ""), public
            manifold, radius, n, epsilon, delta = public
            assert not same(found, planned(plan_of(manifold, radius, n, 1.01 * epsilon, delta)))
            seen.add(found["expected"])
    assert len(seen) > 40
    assert page.troubles == []


def test_the_explorer_knows_the_private_ball_and_says_where_it_has_no_table(site: Path, page: Any) -> None:
    page.goto((site / "explorer.html").resolve().as_uri())
    for manifold, outer in ((geodp.Sphere(2), None), (geodp.SPD(3), 30.0)):
        choice = page.eval_on_selector_all("#explorer-manifold option", "options => options.map(o => o.textContent)")
        page.select_option("#explorer-manifold", str([name.split(":")[0] for name in choice].index(repr(manifold))))
        page.select_option("#explorer-found", "1")
        # between two columns of the table it is about the smaller number, and says so
        epsilons, records = (page.evaluate(f"window.GEODP.{name}") for name in ("epsilons", "records"))
        set_sliders(page, epsilon=epsilons.index(1.2), n=records.index(12_000))
        spread = page.evaluate(f"window.GEODP.manifolds.find(m => m.name === '{manifold!r}').searched.spreads[1]")
        start = manifold if outer is None else geodp.Ball(manifold, manifold.origin, outer)
        chain = geodp.plan_chain(start, 10_000, epsilon=1.0, spread=spread, find=0.2)
        words = page.text_content("#explorer-found-words")
        assert "n = 10000, epsilon = 1 " in words
        assert f"radius {chain.radius:.4g}" in words
        assert f"expected error of {chain.expected_error:.4g}" in words
        set_sliders(page, n=0)
        assert "start at n = 100" in page.text_content("#explorer-found-words")
        page.select_option("#explorer-delta", "2")
        assert "are for pure epsilon" in page.text_content("#explorer-found-words")
        page.select_option("#explorer-delta", "0")
    page.select_option("#explorer-manifold", label="Euclidean(3): vectors")
    page.select_option("#explorer-found", "0")
    assert "no table of private balls on Euclidean(3)" in page.text_content("#explorer-found-words")


def test_the_explorer_says_so_when_its_tables_are_missing(site: Path, browser: Any) -> None:
    tab = browser.new_page()
    tab.route("**/explorer-data.js", lambda route: route.abort())
    tab.goto((site / "explorer.html").resolve().as_uri())
    assert "tables of the explorer are missing" in tab.text_content("#geodp-explorer")
    tab.close()


def test_on_a_phone_no_page_is_wider_than_the_screen_and_no_code_is_cut(site: Path, page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    wide = "[...document.querySelectorAll('.highlight pre')].filter(pre => pre.scrollWidth > pre.clientWidth + 1).length"
    for file in pages(site):
        page.goto(file.resolve().as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, file
        assert page.evaluate(wide) == 0, file


def test_the_explorer_tells_when_a_release_says_nothing(site: Path, page: Any) -> None:
    page.goto((site / "explorer.html").resolve().as_uri())
    page.select_option("#explorer-manifold", label="SPD(3): diffusion tensors")
    for n, silent in ((0, True), (50, False)):
        set_sliders(page, epsilon=0, n=n, radius=100)
        assert ("will say nothing" in page.text_content("#explorer-message")) is silent
        plan = plan_of(*public_numbers(page))
        assert ("will say nothing" in str(plan)) is silent
        assert same(shown(page), planned(plan))
        # no law on the manifold is as wide as that
        assert page.text_content("#explorer-mechanism") == plan.noise.name == ("tangent" if silent else "Riemannian") + " Laplace"


def test_the_explorer_works_with_the_keyboard_and_every_control_has_a_label(site: Path, page: Any) -> None:
    page.goto((site / "explorer.html").resolve().as_uri())
    for name in ("epsilon", "n", "radius"):
        before = shown(page)["expected"]
        page.focus(f"#explorer-{name}")
        page.keyboard.press("ArrowRight")
        assert shown(page)["expected"] != before, name
        assert page.get_attribute(f"#explorer-{name}", "aria-valuetext") == page.text_content(f"#explorer-{name}-value")
    for name in ("manifold", "epsilon", "delta", "n", "radius", "found"):
        assert page.text_content(f"label[for=explorer-{name}]")


def test_the_cloud_of_the_explorer_is_drawn_from_the_law(site: Path, page: Any) -> None:
    """About 95% of 400 draws are within the circle that says so: between 91% and 98.5%, five standard errors either way."""
    page.goto((site / "explorer.html").resolve().as_uri())
    for name in ("Sphere(2): directions", "Hyperbolic(2): embeddings of trees"):
        page.select_option("#explorer-manifold", label=name)
        for n in (10, 30):
            set_sliders(page, epsilon=12, n=n, radius=25)
            inside = page.evaluate(
                """() => {
                    const circle = Number(document.querySelector('#explorer-cloud .within').getAttribute('r'));
                    const draws = [...document.querySelectorAll('#explorer-cloud .draw')];
                    const lengths = draws.map(c => Math.hypot(c.getAttribute('cx'), c.getAttribute('cy')));
                    return [lengths.length, lengths.filter(length => length < circle).length];
                }"""
            )
            assert inside[0] > 390
            assert 0.91 < inside[1] / inside[0] < 0.985
