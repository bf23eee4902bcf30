# SPDX-License-Identifier: Apache-2.0
"""Pages for web browsers, as tests read them."""

import html.parser
import json
import shutil

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


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
