# SPDX-License-Identifier: Apache-2.0
"""What a power cut may leave of the files of a program, derived from a record of its file calls (VENTRIS_FAULT_RECORD
of tests/faults).

POSIX promises of a file what was there at its last fsync, and of a folder the names that were there at the folder's. Of
everything later any part may be on the disk, in any order: of data any sectors, with zeros or nothing where the others
would be; of names any of the changes. A rename or an exchange within a folder is one change."""

import copy
import dataclasses
import itertools
import os
import random

SECTOR = 512
ALL = bool(os.environ.get("VENTRIS_ALL_FAULTS"))
ALL_SUBSETS = 8 if ALL else 4  # of so many changes all subsets are tried, of more a sample
BY_CHANCE = 32 if ALL else 3
SEED = 24


@dataclasses.dataclass(eq=False)
class Node:
    """A file or a folder, whatever its name. `number` in order of appearance."""

    number: int
    is_folder: bool
    begin: bytes = b""  # of a file, when the record begins


@dataclasses.dataclass(eq=False)
class Call:
    """`change`: for "write" (offset, bytes), for "truncate" the length, for "names" {(folder, name): node or None}. A
    "sync" is of a file or a folder, "open" of a file that was there."""

    thread: str
    kind: str
    node: Node = None
    change: object = None
    text: str = ""


class Record:
    """The calls of a record, and what was there before."""

    def __init__(self, root, calls, data):
        """Takes what is in the folder `root` now as being on the disk. What was recorded after that is read by read(),
        from the files `calls` and `data`."""
        self.root_path = root
        self.nodes = 0
        self.root = self.new_node(True)
        self.tree = {self.root: {}}  # folder: {name: node}, as the program sees it
        self.take(root, self.root)
        self.begin_tree = {folder: dict(names) for folder, names in self.tree.items()}
        self.begin_files = self.files()
        self.calls_path, self.data_path = calls, data
        self.calls = []
        self.bytes = {}  # of a file at the end of the record
        self.versions = []  # (call, path, node or None): every change of what a path names

    def new_node(self, is_folder, begin=b""):
        self.nodes += 1
        return Node(self.nodes, is_folder, begin)

    def take(self, path, node):
        for name in sorted(os.listdir(path)):
            below = os.path.join(path, name)
            if os.path.isdir(below):
                child = self.tree[node][name] = self.new_node(True)
                self.tree[child] = {}
                self.take(below, child)
            else:
                with open(below, "rb") as file:
                    self.tree[node][name] = self.new_node(False, file.read())

    def paths_of(self, node):
        """All names that a file or folder ever had."""
        return {path for path, of in self.begin_files.items() if of is node} | {path for _, path, of in self.versions if of is node}

    def files(self):
        """Path: node, as the program sees it."""
        return {path: node for path, node in walk(self.tree, self.root) if not node.is_folder}

    def place(self, path):
        """(folder, name) of a path from the root of the machine."""
        node = self.root
        *folders, name = os.path.relpath(path, self.root_path).split("/")
        for folder in folders:
            node = self.tree[node][folder]
        return node, name

    def node(self, path):
        if os.path.normpath(path) == self.root_path:
            return self.root
        folder, name = self.place(path)
        return self.tree[folder].get(name)

    def name(self, thread, changes, text):
        """Records changes of names."""
        before = self.files()
        for (folder, name), node in changes.items():
            if node is None:
                self.tree[folder].pop(name, None)
            else:
                self.tree[folder][name] = node
        call = Call(thread, "names", change=changes, text=text)
        self.calls.append(call)
        after = self.files()
        for path in sorted(set(before) | set(after)):
            if before.get(path) is not after.get(path):
                self.versions.append((call, path, after.get(path)))

    def read(self):
        """Reads the record."""
        with open(self.data_path, "rb") as file:
            data = file.read()
        opened = {}  # (node, path) by descriptor
        at = 0
        with open(self.calls_path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for line in lines:
            thread, kind, *words = line.split("\t")
            node, path = opened.get(int(words[0]), (None, "")) if words[0].isdigit() else (None, "")
            text = f"{kind} {path or ' '.join(words)}".replace(self.root_path, "")
            if kind == "open":
                fd, path, how = int(words[0]), words[1], words[2].split(",")
                text = f"open {path.replace(self.root_path, '')} {words[2]}"
                node = None if "unnamed" in how else self.node(path)
                if node is None:
                    node = self.new_node(False)
                    self.name(thread, {self.place(path): node} if "unnamed" not in how else {}, text)
                elif not node.is_folder:
                    self.calls.append(Call(thread, "open", node, text=text))
                    if "truncate" in how:
                        self.calls.append(Call(thread, "truncate", node, 0, text))
                opened[fd] = node, path
            elif kind == "write":
                _, offset, count = map(int, words)
                self.calls.append(Call(thread, "write", node, (offset, data[at : at + count]), text))
                at += count
            elif kind == "truncate":
                self.calls.append(Call(thread, "truncate", node, int(words[1]), text))
            elif kind == "fsync":
                self.calls.append(Call(thread, "sync", node, text=text))
            elif kind == "close":
                opened.pop(int(words[0]))
            elif kind == "mkdir":
                node = self.new_node(True)
                self.tree[node] = {}
                self.name(thread, {self.place(words[0]): node}, text)
            elif kind == "unlink":
                self.name(thread, {self.place(words[0]): None}, text)
            elif kind == "link":
                number = words[0].removeprefix("/proc/self/fd/")
                node = opened[int(number)][0] if number.isdigit() else self.node(words[0])
                self.name(thread, {self.place(words[1]): node}, text)
            elif kind == "rename":
                source, target = map(self.place, words)
                self.name(thread, {source: None, target: self.node(words[0])}, text)
            elif kind == "exchange":
                source, target = map(self.place, words)
                self.name(thread, {source: self.node(words[1]), target: self.node(words[0])}, text)
            else:
                raise ValueError(line)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes that no call wrote")
        for call in self.calls:
            if call.kind in ("write", "truncate"):
                self.bytes[call.node] = applied(self.bytes.get(call.node, call.node.begin), [call])
        return self

    def content(self, node):
        """The bytes of a file when the record ends."""
        return self.bytes.get(node, node.begin)

    def told(self, call):
        """The call with which the program shows that it takes a change of names for done: the next of its thread that
        is no fsync, or the first of a thread that is new; of a thread's last, the next of any thread. None: the end of
        the program."""
        at = self.calls.index(call)
        known = {before.thread for before in self.calls[: at + 1]}
        last = at
        for i in range(at + 1, len(self.calls)):
            if self.calls[i].thread not in known or (
                self.calls[i].thread == call.thread and self.calls[i].kind != "sync"
            ):
                return self.calls[i]
            if self.calls[i].thread == call.thread:
                last = i
        return self.calls[last + 1] if last + 1 < len(self.calls) else None


def walk(tree, folder, path=""):
    """(path, node) of all below a folder; the path of a folder ends with a slash."""
    for name, node in tree[folder].items():
        if node.is_folder:
            yield f"{path}{name}/", node
            yield from walk(tree, node, f"{path}{name}/")
        else:
            yield path + name, node


def applied(content, calls):
    """The bytes of a file after writes and truncations."""
    result = bytearray(content)
    for call in calls:
        if call.kind == "truncate":
            result = result[: call.change] + bytes(max(0, call.change - len(result)))
        else:
            offset, data = call.change
            result += bytes(max(0, offset - len(result)))
            result[offset : offset + len(data)] = data
    return bytes(result)


def torn(content, calls, chance):
    """As applied(), but each sector that a call changes is on the disk or not."""
    result = bytearray(content)
    for call in calls:
        if call.kind == "truncate":
            result = result[: call.change] + bytes(max(0, call.change - len(result)))
            continue
        offset, data = call.change
        result += bytes(max(0, offset + len(data) - len(result)))
        for begin in range(offset - offset % SECTOR, offset + len(data), SECTOR):
            first, last = max(begin, offset), min(begin + SECTOR, offset + len(data))
            if chance.random() < 0.5:
                result[first:last] = data[first - offset : last - offset]
    return bytes(result)


def subsets(count, chance):
    """Sorted tuples of numbers below `count`: all that there are, or none, every number, single ones, all but one,
    beginnings and some by chance."""
    if count <= ALL_SUBSETS:
        for size in range(count + 1):
            yield from itertools.combinations(range(count), size)
        return
    every = tuple(range(count))
    yield from [(), every]
    few = sorted(chance.sample(every, min(count, 2 * BY_CHANCE)))
    yield from ((i,) for i in few)
    yield from (every[:i] + every[i + 1 :] for i in few)
    yield from (every[:i] for i in few)
    yield from (tuple(i for i in every if chance.random() < 0.5) for _ in range(BY_CHANCE))


class Disk:
    """What is on the disk for sure, and what may be, after some calls of a record."""

    def __init__(self, record, is_ignored=lambda path: False):
        """Of files that are ignored one content is tried, with each of their names."""
        self.record = record
        self.is_ignored = is_ignored
        self.tree = {folder: dict(names) for folder, names in record.begin_tree.items()}
        self.changes = []  # of names that may be on the disk: {(folder, name): node} of one folder each
        self.durable = {}  # file: bytes for sure, if changed since the record begins
        self.pending = {}  # file: later calls
        self.cache = {}

    def do(self, call):
        """After a call. Whether that may change what a power cut leaves."""
        if call.kind in ("write", "truncate"):
            self.pending.setdefault(call.node, []).append(call)
            return self.is_reachable(call.node)
        if call.kind == "names":
            by_folder = {}
            for (folder, name), node in call.change.items():
                by_folder.setdefault(folder, {})[folder, name] = node
                if node is not None and node.is_folder:
                    self.tree.setdefault(node, {})
            self.changes += by_folder.values()
            return bool(by_folder)
        if call.kind == "sync" and call.node.is_folder:
            of_it = [change for change in self.changes if next(iter(change))[0] is call.node]
            self.changes = [change for change in self.changes if change not in of_it]
            for change in of_it:
                self.apply(self.tree, change)
            return False  # fewer states, that were there before
        if call.kind == "sync":
            self.durable[call.node] = applied(self.content(call.node), self.pending.pop(call.node, []))
        return False

    def covers(self, call):
        """Whether a sync has something to do."""
        if call.node.is_folder:
            return any(next(iter(change))[0] is call.node for change in self.changes)
        return bool(self.pending.get(call.node))

    def content(self, node):
        return self.durable.get(node, node.begin)

    def is_reachable(self, node):
        """Whether it may have a name that is not ignored."""
        changes = [{(folder, name): n for name, n in names.items()} for folder, names in self.tree.items()]
        changes += self.changes
        return any(
            found is node and not self.is_ignored(f"/{name}")
            for change in changes
            for (_, name), found in change.items()
        )

    @staticmethod
    def apply(tree, change):
        for (folder, name), node in change.items():
            names = tree.setdefault(folder, {})
            if node is None:
                names.pop(name, None)
            else:
                names[name] = node

    def contents(self, node):
        """What the file may hold: first as the program left it."""
        pending = self.pending.get(node, [])
        key = node, len(pending), pending[-1] if pending else None, self.durable.get(node)
        if key not in self.cache:
            chance = random.Random(f"{SEED} {node.number} {len(pending)}")
            durable = self.content(node)
            whole = applied(durable, pending)
            found = {whole: None}
            if pending:
                for chosen in subsets(len(pending), chance):
                    found[applied(durable, [pending[i] for i in chosen])] = None
                for _ in range(BY_CHANCE):
                    found[torn(durable, pending, chance)] = None
                found[durable + bytes(max(0, len(whole) - len(durable)))] = None
            self.cache[key] = list(found)
        return self.cache[key]

    def contents_of(self, path, node):
        if node.is_folder:
            return [b""]
        return [self.content(node)] if self.is_ignored(path) else self.contents(node)

    def states(self):
        """Each that a power cut may leave now: {path: bytes}, and of folders {path with a slash: nothing}."""
        chance = random.Random(f"{SEED} {len(self.changes)}")
        for chosen in subsets(len(self.changes), chance):
            tree = {folder: dict(names) for folder, names in self.tree.items()}
            for i in chosen:
                self.apply(tree, self.changes[i])
            files = list(walk(tree, self.record.root))
            found = [(path, self.contents_of(path, node)) for path, node in files]
            whole = {path: contents[0] for path, contents in found}
            yield whole
            several = [(path, contents) for path, contents in found if len(contents) > 1]
            for path, contents in several:
                for content in contents[1:]:
                    yield {**whole, path: content}
            for _ in range(BY_CHANCE if len(several) > 1 else 0):
                yield {**whole, **{path: chance.choice(contents) for path, contents in several}}


def key_of(state):
    return frozenset((path, hash(content)) for path, content in state.items())


class Oracle:
    """Judges the states that a record allows: of every file the version that the program has taken for done, or a later
    one. Paths of which is_ignored() holds are for people, or are removed later."""

    def __init__(self, record):
        self.record = record
        self.versions = {}  # path: [(call or None for what was there, bytes or None)]
        self.told = {}  # call that changes names: call that tells that it is done, or None: the end of the program
        for path, node in record.begin_files.items():
            self.versions[path] = [(None, node.begin)]
        for call, path, node in record.versions:
            self.told[call] = record.told(call)
            content = None if node is None else record.content(node)
            self.versions.setdefault(path, [(None, None)]).append((call, content))

    def is_ignored(self, path):
        return ".tmp." in path or path.endswith("/.lock")

    def is_grown(self, path, found):
        """Whether it is a file of which flaw() judges."""
        return False

    def flaw(self, state, is_told):
        """What else is wrong with a state, or "". `is_told(call)`: whether a change of names is taken for done."""
        return ""

    def wrong(self, state, done, ended):
        """What is wrong with a state after the calls `done`, or "". `ended`: the program ended after them."""

        def is_told(call):
            return self.told[call] in done or (self.told[call] is None and ended)

        for path in state.keys() | self.versions.keys():
            if path.endswith("/") or self.is_ignored(path):
                continue
            first = 0
            versions = self.versions.get(path, [])
            for i, (call, content) in enumerate(versions):
                # That a name is gone is nobody's loss where it comes back.
                if call is not None and content is not None and is_told(call):
                    first = i
            found = state.get(path)
            allowed = [content for call, content in versions[first:] if call is None or call in done]
            if found in allowed or (self.is_grown(path, found) and (found is not None or None in allowed)):
                continue
            what = "is missing" if found is None else f"has {len(found)} bytes of none of its {len(allowed)} versions"
            return f"{path} {what}"
        return self.flaw(state, is_told)

    def of(self, calls):
        """The same of a program that makes these calls instead."""
        other = copy.copy(self)
        other.record = copy.copy(self.record)
        other.record.calls = calls
        other.told = {call: other.record.told(call) for call in self.told}
        return other

    def sweep(self, seen=None):
        """Goes through all states of the record. Returns (number of states, what is wrong with the first bad one or
        ""); `seen` is called with each state that was not met before."""
        disk = Disk(self.record, self.is_ignored)
        done = set()
        met = set()
        judged = set()  # since what is taken for done last changed
        calls = self.record.calls
        tellers = set(self.told.values())
        changed = True
        for i in range(len(calls) + 1):
            ended = i == len(calls)
            if ended or (i > 0 and calls[i - 1] in tellers):
                judged = set()
                changed = True
            for state in disk.states() if changed else ():
                key = key_of(state)
                if key in judged:
                    continue
                judged.add(key)
                reason = self.wrong(state, done, ended)
                if reason:
                    return len(met), f"after {i} of {len(calls)} calls, {calls[i - 1].text if i else ''}: {reason}"
                if seen and key not in met:
                    seen(state)
                met.add(key)
            if not ended:
                changed = disk.do(calls[i])
                done.add(calls[i])
        return len(met), ""

    def is_needless(self, call, covered, is_last):
        """Whether nothing depends on a sync that covers these calls. `is_last`: of that file or folder."""
        return call.node.is_folder and not is_last and all(".tmp." in path for _, path in self.named_by(covered))

    def named_by(self, calls):
        """(file, path) of the names that calls give."""
        return [(node, path) for call, path, node in self.record.versions if call in calls and node]

    def planted_faults(self):
        """(what, calls): the record without one of the syncs that have something to do. Each must allow a bad state."""
        calls = self.record.calls
        last_of = {call.node: i for i, call in enumerate(calls) if call.kind == "sync"}
        disk = Disk(self.record)
        for i, call in enumerate(calls):
            does_something = call.kind == "sync" and disk.covers(call)
            disk.do(call)
            if does_something:
                synced = max((k for k in range(i) if calls[k].kind == "sync" and calls[k].node is call.node), default=-1)
                covered = [other for other in calls[synced + 1 : i] if self.touches(other, call.node)]
                if not self.is_needless(call, covered, last_of[call.node] == i):
                    yield f"without call {i}, {call.text}", calls[:i] + calls[i + 1 :]

    @staticmethod
    def touches(call, node):
        if call.kind == "names":
            return any(folder is node for folder, _ in call.change)
        return call.kind in ("write", "truncate") and call.node is node
