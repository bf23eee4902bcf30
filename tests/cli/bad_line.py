# SPDX-License-Identifier: Apache-2.0
"""bad_line.py PORT PORT LOSS DELAY: carries packets between two network interfaces, loses some, and delays the
others, until its standard input ends. Prints how many it carried and how many it lost."""

import collections
import random
import select
import socket
import sys
import time

SOL_PACKET = 263
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
ALL_PROTOCOLS = 3
# A packet with its header, as large as segmentation in the sender's device leaves it.
LARGEST = 1 << 17


def attach(port):
    """A socket for the packets of an interface, with what the devices still have to do with them (checksums,
    segmentation) in front of each."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    end.bind((port, ALL_PROTOCOLS))
    end.setblocking(False)
    return end


def main():
    ends = [attach(port) for port in sys.argv[1:3]]
    loss, delay = map(float, sys.argv[3:5])
    chance = random.Random(1)
    under_way = collections.deque()  # (when it is due, its packet, where it goes)
    lost = carried = 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready = select.select([*ends, sys.stdin], [], [], wait)[0]
        if sys.stdin in ready:
            print(carried, lost)
            return
        for end in ready:
            packet = end.recv(LARGEST)
            if chance.random() < loss:
                lost += 1
            else:
                carried += 1
                under_way.append((time.monotonic() + delay, packet, ends[end is ends[0]]))
        while under_way and under_way[0][0] <= time.monotonic():
            _, packet, to = under_way.popleft()
            try:
                to.send(packet)
            except OSError:
                pass  # lost: a line promises nothing


if __name__ == "__main__":
    main()
