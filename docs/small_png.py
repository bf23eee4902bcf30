# SPDX-License-Identifier: Apache-2.0
"""Makes PNG pictures of pages smaller: at most 256 colours, chosen by median cut. For docs/screenshots.py."""

import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = 256


def chunks(png):
    if not png.startswith(SIGNATURE):
        raise ValueError("no PNG")
    at = len(SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += 12 + size


def pixels(png):
    """(width, height, rows of bytes, bytes of a pixel) of a picture in 8-bit RGB or RGBA that is not interlaced."""
    packed = b""
    for kind, data in chunks(png):
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", data)
            if depth != 8 or colour not in (2, 6) or interlace:
                raise ValueError("a PNG of another kind")
        packed += data if kind == b"IDAT" else b""
    size = 3 if colour == 2 else 4
    raw, stride = zlib.decompress(packed), width * size
    rows, above = [], bytes(stride)
    for y in range(height):
        begin = y * (stride + 1)
        above = unfiltered(raw[begin], bytearray(raw[begin + 1 : begin + 1 + stride]), above, size)
        rows.append(bytes(above))
    return width, height, rows, size


def unfiltered(kind, row, above, size):
    """A row without its filter (PNG specification, section 9)."""
    for i in range(len(row)) if kind else ():
        left = row[i - size] if i >= size else 0
        up = above[i]
        if kind == 1:
            predicted = left
        elif kind == 2:
            predicted = up
        elif kind == 3:
            predicted = (left + up) // 2
        else:
            corner = above[i - size] if i >= size else 0
            far_left, far_up, far_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            predicted = left if far_left <= far_up and far_left <= far_corner else up if far_up <= far_corner else corner
        row[i] = (row[i] + predicted) & 255
    return row


def palette_of(counts):
    """At most COLOURS colours: boxes of colours are halved where most pixels differ, and each box becomes its mean."""

    def spread(box):
        low, high = map(min, zip(*box)), map(max, zip(*box))
        return max((b - a, channel) for channel, (a, b) in enumerate(zip(low, high)))

    boxes = [list(counts)]
    while len(boxes) < COLOURS:
        # The square root, as a few pixels of a curve matter beside many of the background.
        weights = [spread(box)[0] * sum(counts[colour] for colour in box) ** 0.5 for box in boxes]
        widest = max(range(len(boxes)), key=weights.__getitem__)
        if weights[widest] == 0:
            break
        box = boxes.pop(widest)
        _, channel = spread(box)
        box.sort(key=lambda colour: (colour[channel], colour))
        half, seen, middle = sum(counts[colour] for colour in box) / 2, 0, 0
        while middle < len(box) - 1 and seen + counts[box[middle]] <= half:
            seen += counts[box[middle]]
            middle += 1
        middle = max(1, middle)
        boxes += [box[:middle], box[middle:]]
    mapped = {}
    palette = []
    for number, box in enumerate(boxes):
        # The most frequent colour, not the mean: flat areas keep theirs.
        palette.append(max(box, key=counts.__getitem__))
        mapped.update(dict.fromkeys(box, number))
    return palette, mapped


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def smaller(png):
    """The picture with a palette."""
    width, height, rows, size = pixels(png)
    split = [list(zip(row[0::size], row[1::size], row[2::size])) for row in rows]
    counts = collections.Counter(colour for row in split for colour in row)
    palette, mapped = palette_of(counts)
    raw = b"".join(b"\0" + bytes(mapped[colour] for colour in row) for row in split)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(colour) for colour in palette)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"PLTE", colours) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
