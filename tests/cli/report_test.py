# SPDX-License-Identifier: Apache-2.0
"""ventris report: the page of training runs and how a browser draws it."""

import json
import os
import re
import signal
import subprocess
import unittest

import support
from pages import BROWSER, ODD, Page, browse



def line_of(step, **values):
    return json.dumps({"step": step, "type": "interval", **values}) + "\n"


def script_line(step, of_step, name, **result):
    return line_of(step, type="event", event="valid_script", of_step=of_step, set=name, **result)


class Report(support.RunTest):
    """Two runs: a, which was continued, and b with another seed."""

    MODEL = support.later_win(*support.TINY_MODEL, "--valid-every", 20, "--save-every", 20, "--digest-every", 10)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, steps, options in (("a", 20, ()), ("a", 40, ()), ("b", 40, ("--seed", 7, "--keep-valid-outputs", "--valid-max-sentences", 8))):
            cls.made(*cls.train(name, *options, max_steps=steps))

    def folder_with(self, name, metrics, config='{"seed": 1}'):
        """A run folder with these metrics."""
        os.makedirs(self.path(name), exist_ok=True)
        self.write(f"{name}/metrics.jsonl", metrics)
        self.write(f"{name}/config.json", config)
        return name

    def folder_with_outputs(self, name, outputs, **texts):
        """A run folder with translations {step: text} of the set "news"."""
        self.folder_with(name, line_of(1, loss=2.0))
        for step, text in outputs.items():
            os.makedirs(self.path(name, "valid", f"{step:08}"))
            self.write(f"{name}/valid/{step:08}/news.txt", text)
        for side, text in texts.items():
            self.write(f"{name}/valid/news.{side}.txt", text)
        return name

    def page(self, *names, warns=()):
        output = self.path("report.html")
        said = self.told("report", *map(self.path, names), "--output", output)
        for words in warns:
            self.assertIn(words, said)
        self.assertEqual("warning" in said, bool(warns), said)
        return self.read(output).decode("ascii")

    def runs(self, *names, **options):
        return Page(self.page(*names, **options)).data["runs"]

    def values(self, name, **options):
        """The values of the page by key and step, and the run."""
        (run,) = self.runs(name, **options)
        return {key: dict(zip(of["step"], of["value"])) for key, of in run["series"].items()}, run

    def test_the_page_has_the_values_of_the_logs(self):
        data = Page(self.page("a", "b")).data
        for run, name in zip(data["runs"], "ab", strict=True):
            lines = self.lines(name)
            expected = {}
            for line in (line for line in lines if line["type"] != "event"):
                for key, value in line.items():
                    if key not in ("step", "epoch", "target_tokens", "elapsed_seconds") and isinstance(value, (int, float)):
                        expected.setdefault(key, {})[line["step"]] = value
            self.assertIn("valid_bleu", expected)
            self.assertEqual({key: dict(zip(of["step"], of["value"])) for key, of in run["series"].items()}, expected)
            intervals = [line for line in lines if line["type"] == "interval"]
            loss = run["series"]["loss"]
            self.assertEqual(loss["seconds"], [line["elapsed_seconds"] for line in intervals])
            self.assertEqual(loss["tokens"], [line["target_tokens"] for line in intervals])
            self.assertEqual((run["name"], run["torn"], run["lines"]), (self.path(name), False, len(lines)))
            self.assertEqual([(mark["kind"], mark["step"]) for mark in run["marks"]], [("restart", 20)] if name == "a" else [])
            self.assertIn("done at step 40", run["state"])
        differing = {option["name"]: option["values"] for option in data["options"] if option["differs"]}
        self.assertEqual(differing["seed"], ["1", "7"])
        self.assertIn("model.d_ff", {option["name"] for option in data["options"]})
        (samples,) = data["runs"][1]["samples"]
        self.assertEqual((samples["lines"], samples["steps"]), (list(range(1, 9)), [20, 40]))
        self.assertEqual(samples["references"], self.read(self.demo_path("valid.de")).decode().splitlines()[:8])

    def test_translations_are_spread_over_the_set_and_the_validations(self):
        texts = {side: "".join(f"{side} {i}\n" for i in range(1, 101)) for side in ("source", "reference")}
        outputs = {step: "".join(f"line {i} of {step}\n" for i in range(1, 101)) for step in range(10, 1010, 10)}
        ((samples,),) = [run["samples"] for run in self.runs(self.folder_with_outputs("many", outputs, **texts))]
        self.assertEqual(samples["lines"], list(range(6, 100, 10)))
        self.assertEqual((len(samples["steps"]), samples["steps"][0], samples["steps"][-1]), (24, 10, 1000))
        self.assertEqual(samples["sources"], [f"source {i}" for i in samples["lines"]])
        for step, translations in zip(samples["steps"], samples["translations"]):
            self.assertEqual(translations, [f"line {i} of {step}" for i in samples["lines"]])
        # Of a line that was not written to its end there is nothing; a long one is cut.
        ((samples,),) = [run["samples"] for run in self.runs(self.folder_with_outputs("few", {5: "a\nb\n", 10: "ä" * 5000 + "\n\nthird"}))]
        self.assertEqual((samples["lines"], samples["steps"], samples["sources"]), ([1, 2], [5, 10], ["", ""]))
        self.assertRegex(samples["translations"][1][0], "^ä{900,1000}…$")

    def test_bad_lines_are_named_and_left_out_and_a_torn_last_line_is_left_out_silently(self):
        log = line_of(10, loss=5.0) + line_of(20, loss=4.0)
        for name, more, warns in (
            ("torn", '{"step": 30, "lo', []),
            ("back", line_of(10, loss=9.0), ["1 bad line", "metrics.jsonl:3: goes back to step 10 from 20"]),
            ("bad", 'nonsense\n{"loss": 1}\n' + "[" * 100000 + "\n" + line_of(30, loss="x"), ["3 bad lines", "metrics.jsonl:3: is no JSON"]),
        ):
            values, run = self.values(self.folder_with(name, log + more), warns=warns)
            self.assertEqual(values, {"loss": {10: 5.0, 20: 4.0}})
            self.assertEqual((run["torn"], bool(run["warning"])), (name == "torn", bool(warns)))

    def test_shares_of_corpora(self):
        log = "".join(line_of(10 * i, stage="x", pairs={"clean": 30 * i, "web": 10 * i * i}) for i in (1, 2, 3))
        (run,) = self.runs(self.folder_with("mix", log))
        self.assertEqual({name: of["value"] for name, of in run["shares"].items()}, {"clean": [0.75, 0.5, 0.375], "web": [0.25, 0.5, 0.625]})

    def test_scores_of_a_script_stand_at_their_validations_and_those_of_further_sets_are_drawn(self):
        log = ""
        for step in (10, 20, 30):
            log += line_of(step, loss=2.0, elapsed_seconds=step / 10, target_tokens=100 * step) + line_of(step, type="validation")
        log += script_line(35, 10, "it", error="it was killed") + script_line(35, 30, "it", score=-2.0) + script_line(35, 20, "news", score=0.75)
        (run,) = self.runs(self.folder_with("scripts", log))
        self.assertEqual(set(run["series"]), {"loss", "it/script", "news/script"})
        it, news = (run["series"][f"{name}/script"] for name in ("it", "news"))
        self.assertEqual([news[key] for key in ("step", "value", "seconds", "tokens")], [[20], [0.75], [2], [2000]])
        self.assertEqual((it["step"], it["value"]), ([30], [-2.0]))
        self.assertEqual([(mark["step"], mark["kind"], mark["text"]) for mark in run["marks"]],
                         [(35, "no score", "--valid-script has no score for step 10, it: it was killed")])  # fmt: skip
        # A script that always fails leaves marks of another kind their place.
        log = "".join(line_of(step, type="validation") + script_line(step, step, "it", error="no") for step in range(1, 601))
        log += line_of(700, type="event", event="removed")
        (run,) = self.runs(self.folder_with("failing", log))
        self.assertEqual([mark["step"] for mark in run["marks"]], [*range(581, 601), 700])
        self.assertEqual(run["marks_left_out"], 0)
        log = line_of(10, loss=2.5, sets=7) + line_of(20, type="validation", valid_bleu=30.0, sets={"it": {"bleu": 20.0}})
        values, _ = self.values(self.folder_with("sets", log))
        self.assertEqual((values["it/bleu"], values["valid_bleu"]), ({20: 20.0}, {20: 30.0}))

    def test_text_of_files_is_never_markup(self):
        event = line_of(5, type="event", event="stage_end", ended_stage=ODD, end=ODD)
        name = self.folder_with("odd <script>alert(1)<", line_of(1, **{ODD: 1.0}) + event, json.dumps({ODD: ODD}))
        self.write(f"{name}/command.txt", ODD.encode() + b"\xff\n")
        page = self.page(name)
        self.assertEqual(Page(page).scripts, 2)
        self.assertNotIn("alert(1)<", page)
        self.assertNotIn("://", page)
        self.assertIn(ODD, Page(page).data["runs"][0]["series"])

    def test_a_long_log_is_thinned_to_values_that_it_has(self):
        values = {step: (step * 7919) % 10007 / 7 for step in range(1, 200001)}
        log = "".join(f'{{"step":{step},"type":"interval","loss":{value}}}\n' for step, value in values.items())
        (run,) = self.runs(self.folder_with("long", log))
        loss = run["series"]["loss"]
        self.assertEqual((loss["of"], loss["step"][0], loss["step"][-1]), (200000, 1, 200000))
        self.assertTrue(2500 < len(loss["value"]) <= 3002)
        self.assertTrue(all(values[step] == value for step, value in zip(loss["step"], loss["value"])))
        self.assertEqual((min(loss["value"]), max(loss["value"])), (min(values.values()), max(values.values())))

    def test_what_is_no_run_is_refused_and_a_run_without_values_is_not(self):
        self.assertEqual(self.values(self.folder_with("empty", ""))[0], {})
        os.remove(self.path("empty", "metrics.jsonl"))
        self.assertEqual(self.values("empty")[0], {})
        output = self.path("none.html")
        os.makedirs(self.path("nothing"), exist_ok=True)
        newer = self.folder_with("newer", line_of(1, format="ventris metrics 9"))
        for code, words, says in (
            (66, (self.corpus, "--output", output), "is a file"),
            (66, (self.path("nothing"), "--output", output), "not of a training run"),
            (64, (self.path("a"),), "--output"),
            (65, (self.path(self.folder_with("no_json", "", "[")), "--output", output), "config.json"),
            (65, (self.path(newer), "--output", output), "version 9"),
            (73, (self.path("a"), "--output", self.path("a", "metrics.jsonl")), "metrics.jsonl"),
        ):
            self.refuse(code, "report", *words, says=says)
        self.assertFalse(os.path.exists(output))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_draws_and_reads_out_the_values(self):
        losses = [[line["loss"] for line in self.lines(name) if line["type"] == "interval"] for name in "ab"]
        keys = "const svg = document.querySelector('svg.plot');" + "".join(
            f"svg.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}));" for key in ("Home", "ArrowRight", "+"))
        for script, at in (("", -1), (keys, 1)):
            document = browse(self, self.page("a", "b"), script)
            read = [float(value) for value in re.findall(r'data-value="([^"]+)"', document)]
            self.assertEqual([read[0], read[2]], [losses[0][at], losses[1][at]])
        self.assertNotIn('id="reset" disabled', document)
        self.assertGreater(document.count('class="plot"'), 5)
        log = line_of(1, **{ODD: 1.0}) + line_of(2, loss=-1.0, perplexity=0.0) + script_line(10, 10, ODD, error=ODD)
        document = browse(self, self.page(self.folder_with("strange", log, json.dumps({ODD: ODD})), self.folder_with("bare", "")))
        self.assertIn("&lt;/script&gt;&lt;script&gt;alert(1)", document)
        self.assertIn("has no values yet", document)

    def test_every_seconds_the_page_of_a_run_is_written_again_and_loads_itself(self):
        name = self.folder_with("followed", line_of(1, loss=2.0, target_tokens=9))
        output = self.path("followed.html")
        # Tests that a shell started in the background inherit that SIGINT is ignored.
        process = subprocess.Popen(support.command("report", self.path(name), "--output", output, "--every", 1), stdout=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), env=support.environment())  # fmt: skip
        process.stdout.readline()
        page = self.read(output).decode("ascii")
        self.assertEqual(page.count("location.reload()"), 1)
        self.write(f"{name}/metrics.jsonl", line_of(1, loss=2.0) + line_of(2, loss=1.5))

        def losses():
            return Page(self.read(output).decode("ascii")).data["runs"][0]["series"]["loss"]["value"]

        self.assertTrue(support.wait_for(lambda: losses() == [2.0, 1.5], process))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        self.assertIn(process.returncode, (-signal.SIGINT, 128 + signal.SIGINT))
        if BROWSER:  # an open page keeps what was chosen
            loaded = """byId("axis").value = "tokens";
                        const loaded = () => { byId("axis").value = "step"; takeChoices(); document.title = "loaded"; };"""
            document = browse(self, page.replace("location.reload()", "loaded()"), loaded)
            self.assertIn("<title>loaded</title>", document)
            self.assertIn("<title>Loss by target tokens</title>", document)


if __name__ == "__main__":
    unittest.main(verbosity=2)
