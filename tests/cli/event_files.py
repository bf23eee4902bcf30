# SPDX-License-Identifier: Apache-2.0
"""A reader of TensorBoard event files that shares no code with the program: frames, checksums and protocol buffers by hand."""

import glob
import os
import struct

from proto import fields


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frames(data):
    """The messages in the frames of a file; the checksums of those of at most 200 bytes are compared."""
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8]), "the checksum of a length is wrong"
        message, (check,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        assert len(message) > 200 or check == masked(message), "the checksum of a message is wrong"
        yield message
        data = data[16 + length :]


def events(folder):
    """(step, time, tag, value) of all event files of a folder in their order."""
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        with open(path, "rb") as file:
            messages = [fields(message) for message in frames(file.read())]
        assert messages[0][3] == [b"brain.Event:2"] and 5 not in messages[0], path
        for event in messages[1:]:
            for summary in event.get(5, []):
                for value in map(fields, fields(summary).get(1, [])):
                    yield event[2][0], event[1][0], value[1][0].decode(), value[2][0]
