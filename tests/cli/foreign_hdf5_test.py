# SPDX-License-Identifier: Apache-2.0
"""HDF5 files of ours that another program wrote again, such as one in Python: `inspect` says of them what the reader says."""

import os
import unittest

import h5py
import numpy

import support
from digest_test import USER_BLOCK, seal_hdf5

FILES = os.path.join(support.GOLDEN_DIR, "files", "1.0")
BIAS = "model/decoder/layers/0/feed_forward/inner/bias"
CHECKPOINT = os.path.join("run", "checkpoint-00001500.h5")
NULL = h5py.Empty(numpy.float32)


def rewrite(source, target, change=lambda name, value: value, aligned=True, attributes=lambda name, value: value, ordered=True,
            filters=None):  # fmt: skip
    """Copies a file dataset by dataset, as `change` gives them (None: left out), and likewise `attributes`, and seals it."""
    alignment = {"alignment_threshold": 1, "alignment_interval": 64} if aligned else {}
    with (
        h5py.File(source, "r") as old,
        h5py.File(target, "w", userblock_size=USER_BLOCK, libver=("v110", "v110"), track_order=ordered, **alignment) as new,
    ):
        for name, value in old.attrs.items():
            value = attributes(name, value)
            if value is not None:
                new.attrs[name] = numpy.bytes_(value) if isinstance(value, str) else value
        names = []
        old.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in names:
            value = change(name, old[name][()])
            if value is None:
                continue
            parent = new
            for part in name.split("/")[:-1]:
                parent = parent[part] if part in parent else parent.create_group(part, track_order=ordered)
            dataset = parent.create_dataset(name.rsplit("/", 1)[-1], data=value, **(filters or {}))
            dropped = 0
            while not aligned and name.endswith("/offsets") and dataset.id.get_offset() % 8 == 0:
                # Takes room until the next place is between two multiples of 8.
                dropped += 1
                del parent[name.rsplit("/", 1)[-1]]
                new.create_dataset(f"room{dropped}", data=numpy.zeros(dropped, numpy.uint8))
                dataset = parent.create_dataset(name.rsplit("/", 1)[-1], data=value)
    seal_hdf5(target)


class ForeignHdf5(support.CommandLineTest):
    def rewritten(self, name, **options):
        path = self.path(os.path.basename(name))
        rewrite(os.path.join(FILES, name), path, **options)
        return path

    def train(self, corpus):
        return ["train", "--corpus", corpus, "--model-dir", self.path("run"), "--preset", "tiny", "--max-steps", 1]

    def refuse_all(self, commands, says):
        told = {self.refuse(65, *command, says=says).split("error: ")[-1] for command in commands}
        self.assertEqual(len(told), 1, told)

    def test_a_corpus_at_another_alignment_is_refused_by_inspect_as_by_train(self):
        path = self.rewritten("corpus.h5", aligned=False)
        self.refuse_all(
            (self.train(path), ["inspect", path], ["inspect", path, "--json"], ["inspect", path, "--verify"]),
            [path, "no multiple of 8", "mapped into memory", "alignment_interval=64"],
        )
        # As the message says.
        path = self.rewritten("corpus.h5")
        self.succeed("inspect", path)
        self.assertIn(b"verified", self.succeed("inspect", path, "--verify"))

    def test_what_only_a_resume_reads_is_verified(self):
        def tensor(name, change):
            return {"change": lambda other, value: change(value) if other == name else value}

        def attribute(name, changed):
            return {"attributes": lambda other, value: changed if other == name else value}

        def negative(value):
            return -numpy.ones_like(value)

        for change, says in (
            (tensor("adam/m", lambda value: None), ["/adam/m"]),
            (tensor("adam/m", lambda value: value[:-1]), ["/adam/m", "expected f32 ["]),
            (tensor("adam/v", negative), ["/adam/v", "a negative number"]),
            (attribute("step", -3), ["step"]),
            (attribute("logical_shards", 0), ["0 logical shards"]),
            (attribute("parameter_digest", "0" * 32), ["digest"]),
            (attribute("resume_signature", None), ["resume_signature"]),
        ):
            path = self.rewritten(CHECKPOINT, **change)
            self.succeed("inspect", path)  # which shows what is there
            self.refuse(65, "inspect", path, "--verify", says=[path, *says])
        self.succeed("inspect", self.rewritten(CHECKPOINT), "--verify")

    def test_a_model_that_translate_refuses_is_refused_by_inspect(self):
        def tensor(change):
            return lambda name, value: change(value) if name == BIAS else value

        for change, says in (
            (tensor(lambda value: value.astype(numpy.float64)), [BIAS.removeprefix("model/"), "is f64 [", "needs f32 ["]),
            (tensor(lambda value: numpy.float32(3)), [BIAS.removeprefix("model/"), "is f32 [], but"]),
            (tensor(lambda value: NULL), [f"/{BIAS} has a null dataspace (no elements), where an array of f32 ["]),
            (tensor(lambda value: None), [BIAS.removeprefix("model/"), "is missing"]),
            (lambda name, value: None if name == "tokenizer" else value, ["no dataset /tokenizer"]),
            (lambda name, value: None, ["no dataset /tokenizer"]),
        ):
            path = self.rewritten("weights.h5", change=change)
            self.refuse_all((["translate", "--model", path], ["inspect", path], ["inspect", path, "--verify"]), [path, *says])
        path = self.rewritten("weights.h5")
        self.succeed("inspect", path)
        self.assertIn(b"verified", self.succeed("inspect", path, "--verify"))

    def test_what_another_program_does_not_keep_is_told_with_what_to_do(self):
        path = self.rewritten("weights.h5", ordered=False)
        self.refuse(65, "inspect", path, says=[path, "cannot list / in the order in which its members were made"])
        path = self.rewritten("weights.h5", filters={"chunks": True})
        self.refuse(65, "inspect", path, says=[path, "is not stored contiguously", "without chunks and filters"])
        with open(path, "r+b") as file:
            file.write(bytes(USER_BLOCK))
        self.refuse(65, "inspect", path, says=[path, "does not begin with VENTRIS1", "copy the file itself"])


if __name__ == "__main__":
    unittest.main()
