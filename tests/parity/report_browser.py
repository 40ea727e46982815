#!/usr/bin/env python3
"""Opens a report in headless Chromium and checks what a reader would see.

    report_browser.py REPORT.html DATA_DIR [--pictures DIR]

REPORT.html and DATA_DIR are what `metier report RUN... --out REPORT.html --data DATA_DIR` wrote. Checked: every figure
is drawn (its canvas is not blank), nothing is logged as an error, nothing is requested, light and dark differ, 360
pixels are enough without scrolling sideways, wide tables say so and keep their first column, every CSV and JSON that is
offered equals the file in DATA_DIR, a heat map answers to the pointer. --pictures leaves screenshots there.
Needs playwright (pip) and a chromium ($CHROMIUM, default /usr/bin/chromium).
"""
import argparse
import csv
import json
import math
import os
import pathlib
import sys

from playwright.sync_api import sync_playwright

BLANK = """canvas => {
    const pen = canvas.getContext('2d');
    const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 0) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return seen.size < 3;
}"""

problems = []


def check(good, text):
    if not good:
        problems.append(text)


def same(one, other):
    """Two cells of CSV: equal as text, or as numbers."""
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def compare_download(page, figure, name, data):
    for kind in ("csv", "json"):
        with page.expect_download() as waiting:
            page.wait_for_timeout(110)  # a browser takes about ten downloads in a second from a page
            figure.locator(f'button[data-get="{kind}"]').click()
        download = waiting.value
        text = pathlib.Path(download.path()).read_text(encoding="utf-8")
        wanted = (data / download.suggested_filename).read_text(encoding="utf-8")
        if kind == "csv":
            ours, theirs = (list(csv.reader(t.splitlines())) for t in (text, wanted))
            alike = len(ours) == len(theirs) and all(
                len(a) == len(b) and all(map(same, a, b)) for a, b in zip(ours, theirs))
        else:
            alike = json.loads(text) == json.loads(wanted)
        check(alike, f"{name}: its {kind} is not what --data wrote")


def look(browser, url, theme, width, height, pictures, name):
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": height},
                                  device_scale_factor=1, accept_downloads=True)
    page = context.new_page()
    requests = []
    page.on("console", lambda m: check(m.type not in ("error", "warning"), f"{name}: console: {m.text}"))
    page.on("pageerror", lambda e: check(False, f"{name}: {e}"))
    page.on("request", lambda r: requests.append(r.url))
    page.goto(url)
    page.wait_for_selector("html[data-drawn]", state="attached")
    page.wait_for_timeout(500)
    check([r for r in requests if r != url and not r.startswith("blob:")] == [], f"{name}: requests {requests}")
    canvases = page.locator("figure canvas")
    drawn = 0
    for i in range(canvases.count()):
        canvas = canvases.nth(i)
        canvas.scroll_into_view_if_needed()
        page.wait_for_timeout(30)
        label = canvas.get_attribute("aria-label")
        check(not canvas.evaluate(BLANK), f"{name}: blank: {label}")
        drawn += 1
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    check(overflow <= 0, f"{name}: scrolls sideways by {overflow} pixels at a width of {width}")
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(100)
    if pictures:
        page.screenshot(path=str(pictures / f"report-{name}.png"))
        page.screenshot(path=str(pictures / f"whole-{name}.png"), full_page=True)
    return context, page, drawn


TABLES = """() => [...document.querySelectorAll('.scroll')].flatMap(box => {
    const wrong = [], name = box.closest('figure').dataset.figure;
    const wide = box.scrollWidth - box.clientWidth > 2;
    if (box.parentElement.classList.contains('more') !== wide) wrong.push(name + ': the cue of a wide table');
    const first = box.querySelector('tbody tr > :first-child');
    const before = first ? first.getBoundingClientRect().left : 0;
    box.scrollLeft = 1e6;
    if (first && Math.abs(first.getBoundingClientRect().left - before) > 1) wrong.push(name + ': the first column moves');
    box.scrollLeft = 0;
    for (const cell of box.querySelectorAll('td.n'))
        if (getComputedStyle(cell).whiteSpace !== 'nowrap') { wrong.push(name + ': a number may wrap'); break; }
    return wrong;
})"""


def tables(page, name):
    """Wide tables say that they go on and keep their first column; numbers stay on one line."""
    for wrong in page.evaluate(TABLES):
        check(False, f"{name}: {wrong}")


def hover(page):
    maps = page.locator("figure.heatmap")
    if maps.count() == 0:
        return
    plot = maps.first.locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4)
    text = plot.locator(".tip").inner_text()
    check(math.isfinite(float(text.split()[-1])), f"hovering over a heat map says '{text}'")
    print(f"hover: {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    url = options.report.resolve().as_uri()
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                                       args=["--no-sandbox"])
        context, page, drawn = look(browser, url, "light", 1440, 1000, options.pictures, "light")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        figures = page.locator("figure[data-figure]")
        for i in range(figures.count()):
            compare_download(page, figures.nth(i), figures.nth(i).get_attribute("data-figure"), options.data)
        hover(page)
        tables(page, "light")
        page.locator("#theme").click()
        toggled = page.evaluate("getComputedStyle(document.body).backgroundColor")
        check(toggled != paper, "the button does not change the theme")
        context.close()
        context, page, _ = look(browser, url, "dark", 1440, 1000, options.pictures, "dark")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        check(dark == toggled, f"dark by preference is {dark}, by button {toggled}")
        context.close()
        context, page, _ = look(browser, url, "light", 360, 740, options.pictures, "phone")
        tables(page, "phone")
        context.close()
        print(f"{drawn} figures drawn in three views, {len(problems)} problems")
        browser.close()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
