# SPDX-License-Identifier: Apache-2.0
"""Pages for web browsers: what they hold, and what a browser makes of them."""

import html.parser
import json
import shutil
import subprocess

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
# A text that must never become markup, with a mark that turns the direction of writing.
ODD = "<b>&amp; \"half\" 'past' \u202eseven</b> </script><script>alert(1)</script> \u05e9\u05dc\u05d5\u05dd"


class Page(html.parser.HTMLParser):
    """The scripts and the embedded data of a page."""

    def __init__(self, page):
        super().__init__()
        self.scripts, self.text, self.inside = 0, "", False
        self.feed(page)
        self.data = json.loads(self.text)

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        self.inside = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.text += data if self.inside else ""


def browse(test, page, script=""):
    """The document of a page as the browser has it after the script; fails if the console shows an error."""
    path = test.write("browsed.html", page.replace("</body>", f"<script>{script}</script></body>"))
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1400,1000",
             f"--user-data-dir={test.path('profile')}", "--virtual-time-budget=3000", "--dump-dom", f"file://{path}"]  # fmt: skip
    result = subprocess.run(words, capture_output=True, timeout=600, check=True)
    test.assertNotIn("CONSOLE", result.stderr.decode(errors="replace"))
    return result.stdout.decode()
