#!/usr/bin/env python3
"""The page of metier serve in Chromium, driven as a person would. Usage: serve_page.py METIER SHARE
Needs playwright and Chromium; exit status 77 without them."""
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: this Python has no playwright")
    sys.exit(77)
browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if not browser_path:
    print("skipped: there is no Chromium")
    sys.exit(77)

metier, share = sys.argv[1:3]
failed = 0


def check(held, what):
    global failed
    if not held:
        failed += 1
        print(f"serve_page.py: {what}")


place = tempfile.mkdtemp()
models = f"{share}/models"
process = subprocess.Popen([metier, "serve", f"{models}/tiny-deepseek-v2", f"mix={models}/tiny-mixtral", "--port", "0"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
address = next(line.split()[-1] for line in process.stdout if line.startswith("listening on"))


def background(page, index):
    return page.locator(".answer .token").nth(index).evaluate("node => node.style.background")


def talk(page):
    """Asks two models, and looks at tokens, layers and loads."""
    page.goto(address)
    page.wait_for_selector("#first option", state="attached")
    check(page.locator("#first option").count() == 2, "the models are not listed")
    page.select_option("#second", "mix")
    page.fill("#text", "mercury at 20 C: <img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer:nth-child(2) .token")
    page.wait_for_selector("#send:visible")
    check(page.locator(".answer").count() == 2, "two models, other than two answers")
    check(page.locator("img").count() == 0, "a text became an element")
    check(page.locator(".user").inner_text().endswith("<img src=x onerror=alert(1)>"), "what was said is not shown")
    page.locator(".answer .token").nth(3).hover()
    check(page.locator("#token .bar").count() == 4, "a token does not show its 4 experts")
    shares = [float(text.split()[0]) for text in page.locator("#token .bar span:last-child").all_inner_texts()]
    check(abs(sum(shares) - 100) < 0.5 and shares == sorted(shares, reverse=True), f"shares {shares}")
    before = [background(page, i) for i in range(12)]
    page.locator("#layer").focus()
    page.keyboard.press("ArrowRight")
    check(page.locator("#layer-name").inner_text() == "1", "the second layer of the model with more layers is layer 1")
    check([background(page, i) for i in range(12)] != before, "another layer, the same colours")
    page.wait_for_selector("#loads .loads i")
    check(page.locator("#loads .loads").count() == 2, "loads of two models")
    page.locator(".answer .token").nth(2).evaluate("node => { node.tabIndex = 0; node.focus(); }")
    page.keyboard.press("ArrowRight")
    check(page.locator("#token-title").inner_text().startswith("Token 4"), "the arrow keys do not walk")
    page.click("#clear")
    check(page.locator(".turn").count() == 0, "a new conversation shows the old one")


def look_back(page):
    """The same page without a server, of recorded answers."""
    with open(f"{place}/answers.jsonl", "w") as file:
        for model in ("tiny-deepseek-v2", "mix"):
            body = {"model": model, "prompt": "mercury at 20 C:</script>", "temperature": 0, "metier": {"routing": True}}
            request = urllib.request.Request(f"{address}/v1/completions", json.dumps(body).encode())
            file.write(urllib.request.urlopen(request).read().decode().strip() + "\n")
    subprocess.run([metier, "report", "--routing", f"{place}/answers.jsonl", "--out", f"{place}/page.html"], check=True,
                   stdout=subprocess.DEVNULL)
    page.goto(f"file://{place}/page.html")
    page.wait_for_selector(".answer .token")
    check(page.locator(".turn").count() == 1 and page.locator(".answer").count() == 2, "recorded answers do not stand together")
    check(not page.locator("#form").is_visible(), "a page without a server asks for a message")
    page.locator(".answer .token").nth(3).hover()
    check(page.locator("#token .bar").count() == 4, "a recorded token does not show its experts")


try:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for scheme, width in (("light", 1300), ("dark", 400)):
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
            page = context.new_page()
            page.on("pageerror", lambda error: check(False, f"an error on the page: {error}"))
            page.on("console", lambda message: check(message.type != "error", f"the console says {message.text}"))
            talk(page)
            look_back(page)
            overflow = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            check(not overflow, f"at a width of {width} the page scrolls sideways")
            if len(sys.argv) > 3:
                page.screenshot(path=f"{sys.argv[3]}/serve-{scheme}.png", full_page=True)
        browser.close()
finally:
    process.terminate()
    process.wait()
    shutil.rmtree(place)
print(f"{failed} failed")
sys.exit(1 if failed else 0)
