# SPDX-License-Identifier: Apache-2.0
"""A reader of protocol buffers that shares no code with the program."""

import struct


def varint(data, at=0):
    """A number, and where what follows begins."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(message):
    """{number of a field: its values} of a message."""
    found, at = {}, 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
        elif key & 7 == 2:
            size, at = varint(message, at)
            value, at = message[at : at + size], at + size
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            (value,), at = struct.unpack_from(form, message, at), at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def pieces(model):
    """The texts of the vocabulary of a SentencePiece model."""
    return [fields(piece)[1][0].decode() for piece in fields(model)[1]]
