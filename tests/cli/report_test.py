# SPDX-License-Identifier: Apache-2.0
"""ventris report: the page of training runs and how a browser draws it."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

import support
from pages import BROWSER, Page

ODD = "</script><script>alert(1)</script>"


def line_of(step, **values):
    return json.dumps({"step": step, "type": "interval", **values}) + "\n"


class Runs(support.CommandLineTest):
    """Three runs: a, b with another seed, and one that was continued."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()
        for name, options in (("a", ()), ("b", ("--seed", 7))):
            cls.train(name, 40, *options)
        cls.train("resumed", 20)
        time.sleep(1)  # a restart shows as time that training did not count
        cls.train("resumed", 40)

    @classmethod
    def train(cls, name, steps, *options):
        at = support.TINY_MODEL.index("--valid-every")
        model = support.TINY_MODEL[:at] + support.TINY_MODEL[at + 2 :]
        result = support.run(
            *("train", "--corpus", cls.corpus, "--model-dir", os.path.join(cls.folder, name)),
            *(*model, "--max-steps", steps, "--digest-every", 10, "--valid-every", 20, "--save-every", 20, *options)
        )
        assert result.returncode == 0, result.stderr.decode(errors="replace")

    def lines(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def folder_with(self, name, metrics, config='{"seed": 1}'):
        """A run folder with these metrics."""
        os.makedirs(self.path(name), exist_ok=True)
        self.write(f"{name}/metrics.jsonl", metrics)
        self.write(f"{name}/config.json", config)
        return name

    def browse(self, page, script="", *options):
        """The document of a page as the browser has it after the script; fails if the console shows an error."""
        page = page.replace("</body>", f"<script>{script}</script></body>")
        path = self.write("browsed.html", page)
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                 f"--user-data-dir={self.path('profile')}", "--virtual-time-budget=3000", *options, "--dump-dom", f"file://{path}"]
        result = subprocess.run(words, capture_output=True, timeout=120, check=True)
        self.assertNotIn("CONSOLE", result.stderr.decode(errors="replace"))
        return result.stdout.decode()


class Report(Runs):
    def page(self, *names, warns=()):
        output = self.path("report.html")
        result = support.run("report", *(self.path(name) for name in names), "--output", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in warns:
            self.assertIn(words, result.stderr.decode())
        if not warns:
            self.assertNotIn(b"warning", result.stderr)
        return self.read(output).decode("ascii")

    def data(self, *names, **options):
        return Page(self.page(*names, **options)).data

    def values(self, name, **options):
        """The values of the page by key and step."""
        (run,) = self.data(name, **options)["runs"]
        return {key: dict(zip(of["step"], of["value"])) for key, of in run["series"].items()}, run

    def test_the_page_has_the_values_of_the_logs(self):
        data = self.data("a", "b")
        self.assertEqual([run["name"] for run in data["runs"]], [self.path("a"), self.path("b")])
        for run, name in zip(data["runs"], "ab"):
            lines = self.lines(name)
            expected = {}
            for line in lines:
                for key, value in line.items():
                    if key not in ("step", "epoch", "target_tokens", "elapsed_seconds") and isinstance(value, (int, float)):
                        expected.setdefault(key, {})[line["step"]] = value
            self.assertIn("valid_bleu", expected)
            self.assertEqual({key: dict(zip(of["step"], of["value"])) for key, of in run["series"].items()}, expected)
            intervals = [line for line in lines if line["type"] == "interval"]
            loss = run["series"]["loss"]
            self.assertEqual(loss["seconds"], [line["elapsed_seconds"] for line in intervals])
            self.assertEqual(loss["tokens"], [line["target_tokens"] for line in intervals])
            self.assertEqual((run["marks"], run["torn"], run["lines"]), ([], False, len(lines)))
            self.assertIn("done at step 40", run["state"])
        differing = {option["name"]: option["values"] for option in data["options"] if option["differs"]}
        self.assertEqual(differing, {"seed": ["1", "7"]})
        self.assertIn("model.d_ff", {option["name"] for option in data["options"]})

    def folder_with_outputs(self, name, steps, lines, **texts):
        """A run folder with translations of the set "news"."""
        self.folder_with(name, line_of(1, loss=2.0))
        for step in steps:
            os.makedirs(self.path(name, "valid", f"{step:08}"))
            self.write(f"{name}/valid/{step:08}/news.txt", "".join(f"line {i} of {step}\n" for i in range(1, lines + 1)))
        for side, text in texts.items():
            self.write(f"{name}/valid/news.{side}.txt", text)
        return name

    def samples(self, name):
        (samples,) = self.data(name)["runs"][0]["samples"]
        return samples

    def test_translations_are_spread_over_the_set_and_the_validations(self):
        texts = {side: "".join(f"{side} {i}\n" for i in range(1, 101)) for side in ("source", "reference")}
        samples = self.samples(self.folder_with_outputs("many", range(10, 1010, 10), 100, **texts))
        self.assertEqual(samples["lines"], list(range(6, 100, 10)))
        self.assertEqual((len(samples["steps"]), samples["steps"][0], samples["steps"][-1]), (24, 10, 1000))
        self.assertEqual(samples["sources"], [f"source {i}" for i in samples["lines"]])
        self.assertEqual(samples["references"], [f"reference {i}" for i in samples["lines"]])
        for step, texts in zip(samples["steps"], samples["translations"]):
            self.assertEqual(texts, [f"line {i} of {step}" for i in samples["lines"]])

    def test_translations_that_are_few_long_or_not_there(self):
        name = self.folder_with_outputs("few", (5, 10), 3)
        self.write(f"{name}/valid/00000010/news.txt", "ä" * 5000 + "\n\nthird")
        os.makedirs(self.path(name, "valid", "notes"))
        os.makedirs(self.path(name, "valid", "00000020", "odd.txt"))
        samples = next(of for of in self.data(name)["runs"][0]["samples"] if of["set"] == "news")
        self.assertEqual((samples["lines"], samples["steps"]), ([1, 2], [5, 10]))  # of a line that was not written to its end: nothing
        self.assertEqual(samples["sources"], ["", ""])
        self.assertRegex(samples["translations"][1][0], "^ä{900,1000}…$")
        self.assertEqual(self.data(self.folder_with("untranslated", line_of(1, loss=2.0)))["runs"][0]["samples"], [])

    def test_a_run_keeps_what_it_translates(self):
        self.train("kept", 40, "--keep-valid-outputs", "--valid-max-sentences", 8)
        samples = self.samples("kept")
        for side, key in (("en", "sources"), ("de", "references")):
            lines = self.read(self.demo_path("valid." + side)).decode().splitlines()
            if key == "references":
                self.assertEqual(samples[key], lines[:8])
            self.assertEqual(len(self.read(self.path("kept", "valid", f"valid.{key[:-1]}.txt")).splitlines()), 8)
        self.assertEqual((samples["lines"], samples["steps"]), (list(range(1, 9)), [20, 40]))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_marks_the_words_that_changed(self):
        name = self.folder_with_outputs("changed", (5, 10, 15), 1, source="der Hund <b>\n", reference="the dog barks\n")
        for step, text in ((5, "a dog bark"), (10, "the dog bark"), (15, "the dog <i>barks now")):
            self.write(f"{name}/valid/{step:08}/news.txt", text + "\n")
        page = self.page(name)
        text = re.sub("<span>([^<]*)</span>", r"\1", self.browse(page))
        self.assertIn("the dog <del>bark</del><ins>&lt;i&gt;barks now</ins>", text)
        self.assertIn("der Hund &lt;b&gt;", text)
        text = re.sub("<span>([^<]*)</span>", r"\1", self.browse(page, "document.getElementById('sample-back').click()"))
        self.assertIn("<del>a</del><ins>the</ins> dog bark", text)
        against = "const other = document.getElementById('sample-other'); other.value = 'reference'; other.onchange()"
        text = re.sub("<span>([^<]*)</span>", r"\1", self.browse(page, against))
        self.assertIn("the dog <del>barks</del><ins>&lt;i&gt;barks now</ins>", text)

    def test_a_restart_is_marked(self):
        (run,) = self.data("resumed")["runs"]
        self.assertEqual([(mark["kind"], mark["step"]) for mark in run["marks"]], [("restart", 20)])

    def test_a_torn_last_line_is_left_out_silently_and_a_line_that_goes_back_is_named(self):
        log = line_of(10, loss=5.0) + line_of(20, loss=4.0)
        values, run = self.values(self.folder_with("torn", log + '{"step": 30, "lo'))
        self.assertEqual(values["loss"], {10: 5.0, 20: 4.0})
        self.assertTrue(run["torn"])
        self.assertEqual(run["warning"], "")
        says = ["1 bad line", "metrics.jsonl:3: goes back to step 10 from 20"]
        values, run = self.values(self.folder_with("back", log + line_of(10, loss=9.0)), warns=says)
        self.assertEqual(values["loss"], {10: 5.0, 20: 4.0})

    def test_bad_lines_are_named_and_left_out(self):
        log = line_of(10, loss=5.0) + "nonsense\n" + '{"loss": 1}\n' + "[" * 100000 + "\n" + line_of(20, loss="x")
        values, run = self.values(self.folder_with("bad", log), warns=["3 bad lines", "metrics.jsonl:2: is no JSON"])
        self.assertEqual(values, {"loss": {10: 5.0}})
        self.assertIn("3 bad lines", run["warning"])

    def test_the_mix_of_corpora_is_that_of_each_interval(self):
        log = "".join(line_of(10 * i, stage="x", pairs={"clean": 30 * i, "web": 10 * i * i}) for i in (1, 2, 3))
        (run,) = self.data(self.folder_with("mix", log))["runs"]
        self.assertEqual(run["shares"]["clean"]["value"], [0.75, 0.5, 0.375])
        self.assertEqual(run["shares"]["web"]["value"], [0.25, 0.5, 0.625])

    def script_line(self, step, of_step, name, **result):
        return json.dumps({"step": step, "type": "event", "event": "valid_script", "of_step": of_step, "set": name, **result}) + "\n"

    def test_scores_of_a_script_stand_at_their_validations(self):
        def interval(step):
            line = line_of(step, loss=2.0, elapsed_seconds=step / 10, target_tokens=100 * step)
            return line + line_of(step, type="validation")

        log = interval(10) + interval(20) + self.script_line(20, 10, "news", score=0.5) + self.script_line(20, 10, "it", error="it was killed")
        log += interval(30) + self.script_line(35, 30, "it", score=-2.0) + self.script_line(35, 20, "news", score=0.75)
        log += interval(40) + self.script_line(40, 40, "old", score="x", error="why")
        (run,) = self.data(self.folder_with("scripts", log))["runs"]
        self.assertEqual(set(run["series"]), {"loss", "it/script", "news/script"})
        it, news = (run["series"][f"{name}/script"] for name in ("it", "news"))
        self.assertEqual((news["step"], news["value"], news["seconds"], news["tokens"]), ([10, 20], [0.5, 0.75], [1, 2], [1000, 2000]))
        self.assertEqual((it["step"], it["value"]), ([30], [-2.0]))
        self.assertEqual([(mark["step"], mark["kind"], mark["text"]) for mark in run["marks"]],
                         [(20, "no score", "--valid-script has no score for step 10, it: it was killed"),
                          (40, "no score", "--valid-script has no score for step 40, old: why")])  # fmt: skip

    def log_of_sets(self, **scores):
        """Two validations on a set that decides and one named "it"."""
        of_it = {"loss": 3.0, "bleu": 20.0, "bleu_low": 18.0, "bleu_high": 22.0} | scores
        lines = [{"step": step, "type": "validation", "valid_loss": 2.0, "valid_bleu": 30.0, "sets": {"it": of_it}} for step in (10, 20)]
        return line_of(10, loss=2.5) + "".join(json.dumps(line) + "\n" for line in lines)

    def test_scores_of_further_sets_are_drawn(self):
        self.values(self.folder_with("damaged", line_of(10, loss=2.5, sets=7) + line_of(20, loss=2.5, sets={"it": 7})))
        values, _ = self.values(self.folder_with("sets", self.log_of_sets()))
        self.assertEqual((values["it/bleu"], values["valid_bleu"]), ({10: 20.0, 20: 20.0}, {10: 30.0, 20: 30.0}))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_names_the_sets(self):
        document = self.browse(self.page(self.folder_with("sets", self.log_of_sets())))
        self.assertIn('data-charts="2"', document)
        legend = document.partition("BLEU of validations")[2].partition("</figure>")[0]
        rows = re.findall(r"<bdi>(.*?)</bdi></th><td class=\"number\" data-value=\"(.*?)\">", legend)
        self.assertEqual(rows, [(f"{self.path('sets')}: {name}", score) for name, score in (("decides", "30"), ("it", "20"))])

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_narrow_ranges_are_drawn(self):
        """Values that differ in the last bit, and a step axis that is enlarged as far as it goes."""
        log = line_of(10, loss=0.30000000000000004, perplexity=99.99999999999999) + line_of(20, loss=0.3, perplexity=100.0)
        enlarge = "const svg = document.querySelector('svg.plot'); for (let i = 0; i < 80; ++i) "
        document = self.browse(self.page(self.folder_with("narrow", log)), enlarge + "svg.dispatchEvent(new KeyboardEvent('keydown', {key: '+'}));")
        self.assertIn('data-charts="2"', document)
        self.assertNotIn('id="reset" disabled', document)

    def test_text_of_files_is_never_markup(self):
        event = {"step": 5, "type": "event", "event": "stage_end", "ended_stage": ODD, "end": ODD}
        log = line_of(1, **{ODD: 1.0}) + json.dumps(event) + "\n"
        name = self.folder_with("odd <script>alert(1)<", log, json.dumps({ODD: ODD}))
        self.write(f"{name}/command.txt", ODD.encode() + b"\xff\n")
        page = self.page(name)
        self.assertEqual(Page(page).scripts, 2)
        self.assertNotIn("alert(1)<", page)
        self.assertNotIn("://", page)
        self.assertIn(ODD, Page(page).data["runs"][0]["series"])

    def test_a_long_log_is_thinned_to_values_that_it_has(self):
        values = [(step, (step * 7919) % 10007 / 7) for step in range(1, 200001)]
        log = "".join(f'{{"step":{step},"type":"interval","loss":{value}}}\n' for step, value in values)
        (run,) = self.data(self.folder_with("long", log))["runs"]
        loss = run["series"]["loss"]
        self.assertEqual(loss["of"], 200000)
        self.assertLessEqual(len(loss["value"]), 3002)
        self.assertGreater(len(loss["value"]), 2500)
        by_step = dict(values)
        self.assertTrue(all(by_step[step] == value for step, value in zip(loss["step"], loss["value"])))
        self.assertEqual((min(loss["value"]), max(loss["value"])), (min(by_step.values()), max(by_step.values())))
        self.assertEqual((loss["step"][0], loss["step"][-1]), (1, 200000))

    def test_runs_without_values_and_without_validations(self):
        self.assertEqual(self.values(self.folder_with("empty", ""))[0], {})
        os.remove(self.path("empty", "metrics.jsonl"))
        self.assertEqual(self.values("empty")[0], {})
        self.assertEqual(set(self.values(self.folder_with("unproved", line_of(1, loss=2.5)))[0]), {"loss"})

    def test_what_is_no_run_is_refused(self):
        output = self.path("none.html")
        os.makedirs(self.path("nothing"), exist_ok=True)
        self.refuse(66, "report", self.corpus, "--output", output, says=[self.corpus, "is a file"])
        self.refuse(66, "report", self.path("nothing"), "--output", output, says="not of a training run")
        self.refuse(66, "report", self.path("nowhere"), "--output", output, says="does not exist")
        self.refuse(64, "report", self.path("a"), says="--output")
        self.refuse(64, "report", "--output", output, says="RUN")
        self.refuse(65, "report", self.path(self.folder_with("no_json", "", "[")), "--output", output, says="config.json")
        self.refuse(65, "report", self.path(self.folder_with("newer", line_of(1, format="ventris metrics 9"))), "--output", output,
                    says="version 9")
        self.refuse(73, "report", self.path("a"), "--output", self.path("a", "metrics.jsonl"), says="metrics.jsonl")
        self.refuse(73, "report", self.path("a"), "--output", self.path("no", "x.html"), says="cannot create")
        self.assertFalse(os.path.exists(output))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_draws_and_reads_out_the_values(self):
        page = self.page("a", "b")
        document = self.browse(page)
        losses = [[line["loss"] for line in self.lines(name) if line["type"] == "interval"] for name in "ab"]
        read = [float(value) for value in re.findall(r'data-value="([^"]+)"', document)]
        self.assertEqual([read[0], read[2]], [losses[0][-1], losses[1][-1]])
        charts = int(re.search(r'data-charts="(\d+)"', document)[1])
        self.assertEqual((charts, document.count('class="plot"')), (7, 7))
        keys = "const svg = document.querySelector('svg.plot');" + "".join(
            f"svg.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}));" for key in ("Home", "ArrowRight", "+"))
        document = self.browse(page, keys)
        read = [float(value) for value in re.findall(r'data-value="([^"]+)"', document)]
        self.assertEqual([read[0], read[2]], [losses[0][1], losses[1][1]])
        self.assertNotIn('id="reset" disabled', document)

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_shows_odd_and_empty_runs(self):
        log = line_of(1, **{ODD: 1.0}) + line_of(2, loss=-1.0, perplexity=0.0)
        document = self.browse(self.page(self.folder_with("strange", log, json.dumps({ODD: ODD})), self.folder_with("bare", "")))
        self.assertIn("&lt;/script&gt;&lt;script&gt;alert(1)", document)
        self.assertIn("has no values yet", document)


class Every(Runs):
    """--every: the page of a run that goes on."""

    def start(self, name):
        output = self.path("followed.html")
        words = support.command("report", self.path(name), "--output", output, "--every", 1)
        # Tests that a shell started in the background inherit that SIGINT is ignored.
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=support.environment(),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process, output

    def test_the_page_is_written_again_until_the_command_is_interrupted(self):
        name = self.folder_with("followed", line_of(1, loss=2.0))
        process, output = self.start(name)

        def losses():
            return Page(self.read(output).decode("ascii")).data["runs"][0]["series"]["loss"]["value"]

        self.assertEqual(losses(), [2.0])
        self.write(f"{name}/metrics.jsonl", line_of(1, loss=2.0) + line_of(2, loss=1.5))
        self.assertTrue(support.wait_for(lambda: losses() == [2.0, 1.5], process))
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(timeout=60), (-signal.SIGINT, 128 + signal.SIGINT))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_an_open_page_loads_itself_again_and_keeps_what_was_chosen(self):
        _, output = self.start(self.folder_with("reloaded", line_of(1, loss=2.0, target_tokens=9) + line_of(2, loss=1.5, target_tokens=18)))
        page = self.read(output).decode("ascii")
        self.assertEqual(page.count("location.reload()"), 1)
        loaded = """byId("axis").value = "tokens";
                    const loaded = () => { byId("axis").value = "step"; takeChoices(); document.title = "loaded"; };"""
        document = self.browse(page.replace("location.reload()", "loaded()"), loaded)
        self.assertIn("<title>loaded</title>", document)
        self.assertIn("<title>Loss by target tokens</title>", document)


if __name__ == "__main__":
    unittest.main(verbosity=2)
