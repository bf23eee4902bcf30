# SPDX-License-Identifier: Apache-2.0
"""The training pairs of a corpus file (docs/formats.md)."""

import h5py
import numpy as np


def read(path):
    """The ids of each side end to end, and where sentences begin: source_tokens and target_tokens i32, source_offsets and
    target_offsets i64 [pairs + 1]."""
    arrays = {}
    with h5py.File(path) as file:
        for number, side in enumerate(("source", "target")):
            bounds, both = file["train/offsets"][:], file["train/tokens"][:]
            lengths = np.diff(bounds)
            tokens = both[np.repeat(np.arange(len(lengths)) % 2 == number, lengths)]
            offsets = np.concatenate([[0], np.cumsum(lengths[number::2])])
            arrays[f"{side}_tokens"], arrays[f"{side}_offsets"] = tokens.astype(np.int32), offsets.astype(np.int64)
    return arrays
