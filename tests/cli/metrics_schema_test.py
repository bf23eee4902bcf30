# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.schema.json: the lines of real runs, and all that the program can write."""

import json
import os
import re
import unittest

import support

try:
    import jsonschema
except ImportError:
    jsonschema = None



def source(*path):
    with open(os.path.join(support.SOURCE_DIR, *path), encoding="utf-8") as file:
        return file.read()


class Schema(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.schema = json.loads(source("docs", "metrics.schema.json"))

    def test_all_that_can_be_written_is_there(self):
        """The keys and events that stand in the source of the log."""
        code = source("trainer", "observers", "metrics.cc")
        keys = set(re.findall(r'\[?\{?\{"(\w+)", ', code)) | set(re.findall(r'\w+\["(\w+)"\]', code))
        scores = set(re.findall(r'\w+\[prefix \+ "(\w+)"\]', code))
        self.assertEqual(len(scores), 4)
        keys |= {"valid_" + key for key in scores}
        self.assertGreater(len(keys), 30)
        described = self.schema["$defs"].values()
        of_sets = self.schema["$defs"]["validation"]["properties"]["sets"]["additionalProperties"]["properties"]
        self.assertEqual(set(of_sets), scores | {"bleu_low", "bleu_high"})
        self.assertEqual(keys - {key for one in described for key in one["properties"]}, set())
        events = set(re.findall(r'constexpr const char\* k\w*Event = "(\w+)"', source("trainer", "observers", "metric_events.h")))
        events |= set(re.findall(r'"event"\] = "(\w+)"', code)) | set(re.findall(r'\{"event", "(\w+)"\}', code))
        self.assertEqual(events, {one["properties"]["event"]["const"] for one in described if "event" in one["properties"]})
        types = set(re.findall(r'metrics_line\([^"]*, "(\w+)"\)', code)) | {"validation"}
        self.assertEqual(types, {one["properties"]["type"]["const"] for one in described})

    def test_all_that_is_there_is_described(self):
        page, code = source("docs", "metrics.md"), source("trainer", "observers", "metrics.cc") + source("trainer", "observers", "metrics.h")
        for one in self.schema["$defs"].values():
            self.assertFalse(one["additionalProperties"])
            names = set(one["properties"]) | {one["properties"].get("event", {}).get("const", "event")}
            written = {name for name in names if f'"{name}"' in code}
            self.assertEqual({name for name in written if f"`{name}`" not in page}, set())

    @unittest.skipUnless(jsonschema, "without the Python package jsonschema")
    def test_lines_of_runs(self):
        corpus = self.prepare_demo()
        model = support.TINY_MODEL[: support.TINY_MODEL.index("--warmup-steps")]
        words = ["train", "--corpus", corpus, *model, "--threads", 1, "--log-every", 5, "--digest-every", 5, "--valid-every", 10,
                 "--save-every", 10, "--valid-max-sentences", 4]  # fmt: skip
        self.write("plan.mix", b"first: train 1 until 10 steps\nsecond: train 1\n")
        plateau = ["--schedule", "plateau", "--peak-learning-rate", "1e-9", "--plateau-patience", 1]
        for name, options in (("plan", ["--mix", self.path("plan.mix")]), ("plateau", [*plateau, "--warmup-steps", 1])):
            for steps in (20, 40):
                self.succeed(*words, "--model-dir", self.path(name), "--max-steps", steps, *options)
        valid, test = ([self.demo_path(f"{name}.{side}") for side in ("en", "de")] for name in ("valid", "test"))
        sets = ["--valid-sets", *valid, "--valid-set", "test", *test]
        self.succeed("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--tokenizer-from", corpus, *sets,
                     "--output", self.path("sets.h5"))  # fmt: skip
        words_of_sets = [self.path("sets.h5") if word == corpus else word for word in words]
        script = ["--valid-script", 'echo $VENTRIS_STEP; [ "$VENTRIS_SET" = valid ]']
        self.succeed(*words_of_sets, "--model-dir", self.path("sets"), "--max-steps", 20, "--valid-metric", "chrf", *script)
        # Steps are skipped until the run ends.
        result = support.run(*words, "--model-dir", self.path("diverged"), "--max-steps", 60, "--warmup-steps", 1,
                             "--learning-rate-scale", 1000000, "--adam-epsilon", "1e-30", "--beta2", 0.01)  # fmt: skip
        self.assertEqual(result.returncode, 77, result.stderr)
        validator = jsonschema.Draft202012Validator(self.schema)
        validator.check_schema(self.schema)
        seen = set()
        keys = set()
        for name in ("plan", "plateau", "sets", "diverged"):
            for text in self.read(self.path(name, "metrics.jsonl")).splitlines():
                line = json.loads(text)
                self.assertEqual([error.message for error in validator.iter_errors(line)], [], text)
                seen.add(line.get("event", line["type"]))
                keys.update(line)
                for key in line:  # nothing else would be accepted
                    self.assertFalse(validator.is_valid({**line, key + "_": line[key]}))
        self.assertEqual(seen, {"interval", "validation", "digest", "stage_end", "plateau", "resumed", "skipped", "valid_script"})
        self.assertLessEqual({"bleu_low", "bleu_high", "sets", "signature", "chrf_signature", "score", "error"}, keys)


if __name__ == "__main__":
    unittest.main(verbosity=2)
