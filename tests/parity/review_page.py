#!/usr/bin/env python3
"""The review page in a real browser: marks, filters, saving, dark mode, a narrow screen, hostile answers.

Usage: review_page.py METIER [--screenshot FILE.png]. Needs playwright and a Chromium (CHROMIUM names its path).
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'><svg onload='window.pwned = 3'>",
    "<!--<script>\u2028window.pwned = 4//\u2029-->]]>&lt;b&gt;",
    "{data}{script}{nonce}\"'`\\u003cscript\\u003e",
]


def write_run(folder):
    """Two tasks; answers with everything a page could trip over."""
    rows = [
        ("arithmetic", "0", "A baker fills 6 bags with 3 rolls each. How many rolls is that?", "18",
         "Each bag holds 3 rolls and there are 6 bags, so 6 × 3 = 18.\n#### 18", "18", 1),
        ("arithmetic", "1", "A tank holds 1,500 litres and a pump empties 25 litres a minute. How long for half of it?",
         "30", "Half of 1500 is 750, and 750 / 25 is half an hour.", "", 0),
        ("arithmetic", "2", "What is 2 + 2?", "4", "5", "5", 0),
    ]
    rows += [("hostile", str(i), f"Is this harmless? {text}", text, text, text, i % 2) for i, text in enumerate(HOSTILE)]
    rows.append(("hostile", "long", "x" * 3000, "y" * 3000, "z" * 3000, "", 0))
    for task in ("arithmetic", "hostile"):
        with open(folder / f"samples_{task}.jsonl", "w") as file:
            for name, sample, prompt, target, answer, found, score in rows:
                if name == task:
                    file.write(json.dumps({"id": sample, "prompt": prompt, "target": target, "resps": [answer],
                                           "filtered_resps": [found], "score": score}) + "\n")
    return rows


def text(page, name):
    return page.locator("#" + name).text_content()


def check_marks(page):
    assert "shown once" in text(page, "verdicts")
    page.keyboard.press("r")
    assert text(page, "mark") == "marked right"
    assert "rule: right" in text(page, "verdicts")
    page.keyboard.press("ArrowRight")
    assert text(page, "mark") == "not marked" and "shown once" in text(page, "verdicts")
    page.check("#reveal")
    assert "rule: wrong" in text(page, "verdicts")
    page.uncheck("#reveal")
    page.click("#correct")
    page.keyboard.press("n")
    page.keyboard.press("w")
    page.keyboard.press("u")
    assert text(page, "mark") == "marked unsure"
    page.keyboard.press("u")
    assert text(page, "mark") == "not marked"
    page.keyboard.press("w")
    page.keyboard.press("ArrowLeft")
    assert "sample 1 " in text(page, "where")
    assert text(page, "counts").startswith("3 of ")


def check_filters(page, total):
    page.select_option("#show", "disagree")
    assert "1 shown" in text(page, "counts") and "sample 1 " in text(page, "where")
    page.select_option("#show", "open")
    assert f"{total - 3} shown" in text(page, "counts")
    page.select_option("#task", "arithmetic")
    assert "0 shown" in text(page, "counts") and page.locator("#nothing").is_visible()
    page.keyboard.press("r")
    page.select_option("#show", "incorrect")
    assert "sample 2 " in text(page, "where")
    page.select_option("#show", "all")
    page.select_option("#task", "hostile")
    assert "hostile, sample 0" in text(page, "where")
    page.select_option("#task", "")


def check_hostile(page, rows):
    """Every text is shown letter by letter, and none of it ran."""
    for _ in rows:
        page.keyboard.press("k")
    for row in rows:
        assert text(page, "question") == row[2] and text(page, "answer") == row[4], row
        page.keyboard.press("j")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main svg, main script").count() == 0


def check_saved(page, metier, folder):
    with page.expect_download() as download:
        page.keyboard.press("s")
    saved = folder / "review.json"
    download.value.save_as(saved)
    marks = json.loads(saved.read_text())["marks"]
    assert [(mark["id"], mark["verdict"]) for mark in marks] == [("0", "correct"), ("1", "correct"), ("2", "incorrect")]
    merged = subprocess.run([metier, "eval", "--merge-review", saved, "--out", folder], check=True, capture_output=True,
                            text=True)
    assert "3 marks merged" in merged.stdout


def check_layout(page):
    """Nothing sticks out, on a phone either; light and dark differ."""
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        for width in (320, 390, 1280):
            page.set_viewport_size({"width": width, "height": 700})
            for place in range(9):
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{wide} pixels on a screen of {width}"
                page.keyboard.press("j" if scheme == "light" else "k")
    assert len(grounds) == 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("metier")
    parser.add_argument("--screenshot")
    arguments = parser.parse_args()
    above = pathlib.Path(tempfile.mkdtemp())
    folder = above / "metier-e10"
    folder.mkdir()
    rows = write_run(folder)
    subprocess.run([arguments.metier, "review", folder, "--out", folder / "review.html"], check=True, capture_output=True)
    problems = []
    with sync_playwright() as play:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1000, "height": 700})
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(("file:", "blob:")) else problems.append(request.url))
        address = (folder / "review.html").as_uri()
        page.goto(address)
        check_marks(page)
        check_filters(page, len(rows))
        page.goto(address)  # what was marked is remembered
        assert text(page, "counts").startswith("3 of ")
        check_hostile(page, rows)
        check_saved(page, arguments.metier, folder)
        check_layout(page)
        if arguments.screenshot:
            page.emulate_media(color_scheme="light")
            page.set_viewport_size({"width": 820, "height": 640})
            page.goto(address)
            page.screenshot(path=arguments.screenshot)
        browser.close()
    shutil.rmtree(above)
    for problem in problems:
        print("the browser says:", problem)
    print("review page:", "FAILED" if problems else "ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
