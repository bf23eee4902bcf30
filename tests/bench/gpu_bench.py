#!/usr/bin/env python3
"""All measurements on one GPU, as one file in Markdown. tests/bench/gpu.sh calls it; it takes under 8 minutes.

    python3 tests/bench/gpu_bench.py --ventris build/cuda/ventris --attention-bench build/cuda/tests/bench/attention_bench \
        --corpus corpus.h5 --pytorch PYTHON --output table.md [--multi30k TEXT_FOLDER]

ventris trains in bf16 with a CUDA graph per step; PyTorch trains the same model on length-bucketed padded batches of the same sentences,
eager and with torch.compile, bf16 by autocast, fused Adam, scaled_dot_product_attention. The first steps are not counted. Then attention
alone, against PyTorch's on a padded batch, on bucketed batches and on tensors without padding. With --multi30k the recipe also trains on
that text, for at most 5 more minutes. A measurement that fails or is omitted for lack of time has a row with the reason.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIDES = ("encoder", "decoder", "cross")
FORMULA = """Model FLOPs of a step, with n source and m target tokens of a sentence, sums over the sentences of the batch, d = d_model, L layers a
stack, V tokens of the vocabulary. A multiplication and an addition of a product are 2 operations, and backward has two products for
each one of forward, hence the factor 6. Norms, softmax, dropout, padding and Adam are not counted:

    encoder             6 L sum n (4 d^2 + 2 d d_ff)
    decoder             6 L (sum m (6 d^2 + 2 d d_ff) + sum n 2 d^2)
    output projection   6 sum m d V
    attention           12 L d sum (n^2 + m (m + 1) / 2 + m n)

MFU is the rate of the model FLOPs divided by that of the large product in bf16, measured in the same run.
"""


class Clock:
    """The remaining part of the total time."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(1.0, self.end - time.monotonic())


class DeviceMemory:
    """Peak memory in use on the first GPU during a run, above that in use before, in MiB; None if nvidia-smi is missing.
    A ventris process allocates its memory at the start, so two samples a second are enough."""

    QUERY = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]

    def __init__(self):
        self.before = self.used()
        self.most = self.before
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def used(self):
        try:
            return int(subprocess.run(self.QUERY, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0])
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return None

    def watch(self):
        while self.most is not None and not self.done.wait(0.5):
            self.most = max(self.most, self.used() or 0)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def mib(self):
        return None if self.most is None else self.most - self.before


def shown(value, form):
    return "not measured" if value is None else format(value, form)


def ratio(value, other):
    return "" if value is None or other is None else f"{value / other:.2f}"


def attempt(name, measure):
    """The result of measure() with the peak memory, or {"failed": reason}, which is also printed on stderr."""
    with DeviceMemory() as memory:
        try:
            found = measure()
        except table.Failed as error:
            print(f"{name}: {error}", file=sys.stderr)
            found = {"failed": str(error)}
    found["memory"] = memory.mib()
    return found


def measure_training(arguments, clock, preset):
    """[(name, measured)] of ventris and the peers."""
    def ventris():
        extra = ["--device", arguments.device, "--log-every", str(arguments.log_every), "--profile", *arguments.ventris_options.split()]
        return table.train_ventris([], arguments.ventris, arguments.corpus, preset, "bf16", arguments.batch_tokens, arguments.seconds,
                                   arguments.warmup_seconds, extra, min(arguments.warmup_seconds + arguments.seconds + 60, clock.left()))

    def pytorch(more, most):
        options = ["--device", arguments.peer_device, "--precision", "bf16", "--corpus", arguments.corpus, "--preset", preset, "--batch-tokens",
                   arguments.batch_tokens, "--seconds", arguments.seconds, "--warmup-seconds", arguments.warmup_seconds, "--most-pairs",
                   arguments.most_pairs, *more]
        got = table.run_json(table.peer_command(arguments.pytorch, "peer_pytorch.py", options), min(most, clock.left()))
        rate = got["target_tokens_per_second"]
        return {"rate": rate, "ms": 1000 * got["tokens_per_update"] / rate, "tokens_per_update": got["tokens_per_update"],
                "allocated": got["peak_memory_mib"], "version": re.sub(r"[+].*", "", got["version"])}

    found = [("ventris", attempt(f"ventris, {preset}", ventris))]
    for name, more in (("eager", []), ("torch.compile", ["--compile", "--compile-seconds", arguments.compile_seconds])):
        # A peer that hangs in its compiler must not use up the time of the others.
        most = arguments.warmup_seconds + arguments.seconds + (arguments.compile_seconds if more else 0) + 40
        got = attempt(f"PyTorch, {name}, {preset}", lambda more=more, most=most: pytorch(more, most))
        found.append((f"PyTorch {got['version']}, {name}" if "version" in got else f"PyTorch, {name}", got))
    return found


def training_table(gemm, training):
    header = ["preset", "trainer", "ms a step", "target tokens a step", "target tokens/s", "of best PyTorch", "model FLOPs", "MFU",
              "MiB on the device", "MiB of tensors"]
    rows = []
    for preset, found in training.items():
        best = max((m["rate"] for name, m in found if "failed" not in m and name != "ventris"), default=None)
        for name, m in found:
            if "failed" in m:
                rows.append([preset, name, f"not measured: {m['failed']}", *[""] * 7])
                continue
            flops = m.get("flops")
            rows.append([preset, name, f"{m['ms']:.2f}", f"{m['tokens_per_update']:,}", f"{m['rate']:,.0f}", ratio(m["rate"], best),
                         "" if flops is None else f"{flops / 1e12:.1f} TFLOP/s",
                         "" if flops is None or gemm is None else f"{100 * flops / gemm:.1f} %", shown(m["memory"], ",d"),
                         f"{m['allocated']:,}" if "allocated" in m else ""])
    return table.markdown(header, rows)


def phase_table(gemm, preset, profile):
    """The phases of a step; the floor is the time of the phase's products at the rate of the large product."""
    rate = gemm or profile["product_flops_per_second"] or None
    rows, beyond = [], {}
    for phase in profile["phases"] + [{"phase": "other", "ms": profile["other_ms"]}]:
        flops = phase.get("model_flops_per_second", 0.0) * phase["ms"] / 1000
        floor = 1000 * flops / rate if rate else 0.0
        beyond[phase["phase"]] = phase["ms"] - floor
        rows.append([phase["phase"], f"{phase['ms']:.3f}", f"{100 * phase['ms'] / profile['step_ms']:.1f} %", f"{floor:.3f}",
                     f"{phase['ms'] - floor:.3f}"])
    step_floor = profile["model_flops_per_second"] * profile["step_ms"] / rate if rate else 0.0
    rows.append(["step", f"{profile['step_ms']:.3f}", "100 %", f"{step_floor:.3f}", f"{profile['step_ms'] - step_floor:.3f}"])
    most = max(beyond, key=beyond.get)
    return (f"### Phases of a step of {preset}\n\nMean of {profile['steps']} profiled steps, not replayed as graphs. Floor: the model "
            "FLOPs of the phase at the rate of the large product.\n\n" + table.markdown(["phase", "ms", "share", "floor, ms", "beyond it, ms"], rows) +
            f"\nMost of the time beyond the floor: {most}, {beyond[most]:.3f} ms of {profile['step_ms'] - step_floor:.3f}. MFU of these "
            f"steps: {100 * profile['mfu']:.1f} % of a product of {profile['product_size']} cubed at "
            f"{profile['product_flops_per_second'] / 1e12:.2f} TFLOP/s.\n")


def measure_attention(arguments, clock, folder):
    """Token counts of the batch, {(preset, dropout): {way: {side: ms or the reason of a failure}}}, and [(program, reason)] of failures."""
    pairs = os.path.join(folder, "pairs.txt")
    common = ["--corpus", arguments.corpus, "--batch-tokens", arguments.attention_tokens, "--most-pairs", arguments.most_pairs]
    try:
        tokens = table.run_json(table.peer_command(arguments.pytorch, "peer_attention.py", common + ["--write-pairs", pairs]), clock.left())
    except table.Failed as error:
        return None, {}, [("lengths of the sentences", str(error))]
    found, ended = {}, []
    output = os.path.join(folder, "attention.json")
    command = [arguments.attention_bench, "--device", arguments.device, "--pairs", pairs, "--benchmark_format=console",
               "--benchmark_out_format=json", f"--benchmark_out={output}", f"--benchmark_min_time={arguments.attention_min_seconds}"]
    _, reason = table.run_lines(command, min(arguments.attention_seconds, clock.left()))
    if reason is None:
        with open(output, encoding="utf-8") as file:
            for line in json.load(file)["benchmarks"]:
                _, preset, side, *rest = line["name"].split("/")
                key = (preset, 0.1 if "dropout" in rest else 0.0)
                found.setdefault(key, {}).setdefault("ventris", {})[side] = line["real_time"]
    else:
        ended.append(("ventris", reason))
    seconds = max(1.0, min(arguments.attention_seconds, clock.left() - 20))
    command = table.peer_command(arguments.pytorch, "peer_attention.py",
                                 common + ["--pairs", pairs, "--device", arguments.peer_device, "--seconds", seconds])
    lines, reason = table.run_lines(command, min(seconds + 30, clock.left()))
    for line in lines:
        name = line["way"] if line["way"] == line["backend"] else f"{line['way']}, {line['backend']}"
        key = (line["preset"], line["dropout"])
        found.setdefault(key, {}).setdefault(f"PyTorch, {name}" if name else "PyTorch, the rest", {})[line["side"]] = line.get("ms", line.get("failed"))
    if reason is not None:
        ended.append(("PyTorch", reason))
    for who, why in ended:
        print(f"attention, {who}: {why}", file=sys.stderr)
    return tokens, found, ended


def times_of(sides):
    return {side: ms for side, ms in sides.items() if not isinstance(ms, str)}


def best_of(ways, prefix):
    """For each side the fastest backend of a way."""
    best = {}
    for name, sides in ways.items():
        if name.startswith(prefix):
            for side, ms in times_of(sides).items():
                best[side] = min(ms, best.get(side, ms))
    return best


def attention_table(tokens, found, ended):
    rows, reasons = [], []

    def cell(ms):
        if not isinstance(ms, str):
            return f"{ms:.3f}"
        if ms not in reasons:
            reasons.append(ms)
        return f"({1 + reasons.index(ms)})"

    for (preset, rate), ways in sorted(found.items()):
        ours = times_of(ways.get("ventris", {}))
        lines = [("ventris", ours)] if ours else []
        lines += [(name, ways[name]) for name in ways if name != "ventris"]
        best = [(f"PyTorch, best {way}", best_of(ways, f"PyTorch, {way}")) for way in ("padded", "bucketed")]
        lines += [(name, sides) for name, sides in best if sides]
        mine = sum(ours.values()) if len(ours) == len(SIDES) else None
        for name, sides in lines:
            times = times_of(sides)
            total = sum(times.values()) if len(times) == len(SIDES) else None
            rows.append([preset, rate, name, *(cell(sides[side]) if side in sides else "" for side in SIDES),
                         "" if total is None else f"{total:.3f}", ratio(total, mine)])
    for who, why in ended:
        rows.append(["", "", who, *[""] * len(SIDES), f"{'ended early' if who == 'PyTorch' else 'not measured'}: {why}", ""])
    text = table.markdown(["preset", "dropout", "way", *SIDES, "sum", "over ventris"], rows)
    if reasons:
        text += "\nNot measured:\n\n" + "".join(f"{number}. {why}\n" for number, why in enumerate(reasons, 1))
    if tokens is None:
        return text
    return (f"Forward and backward of the three attentions of a layer, ms, bf16, {tokens['pairs']:,} sentence pairs in random order, {tokens['source']:,} "
            f"source and {tokens['target']:,} target tokens with their marks, head size 64. Bucketed: eight batches of similar lengths, scaled to the same "
            "target tokens. The last column is the time divided by that of ventris.\n\n" + text)


def multi30k(arguments, folder):
    """The recipe on the device, for at most 5 minutes."""
    run = os.path.join(folder, "multi30k")
    begin = time.monotonic()
    minutes = min(5.0, arguments.multi30k_minutes)
    environment = {**os.environ, "RANKS": "1", "DEVICE": arguments.device, "PRECISION": "bf16", "MAX_MINUTES": f"{0.8 * minutes:.3f}",
                   "PATH": os.path.dirname(os.path.abspath(arguments.ventris)) + os.pathsep + os.environ["PATH"]}
    if arguments.multi30k_steps:
        environment["MAX_STEPS"] = str(arguments.multi30k_steps)
    environment["VENTRIS"] = os.path.abspath(arguments.ventris)
    command = ["bash", os.path.join(ROOT, "launch", "recipes", "multi30k.sh"), arguments.multi30k, run]
    printed, reason = table.run(command, 60 * minutes, environment)
    if reason is not None:
        return f"Not measured: {reason}\n"
    seconds = time.monotonic() - begin
    with open(os.path.join(run, "model", "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    rows, elapsed, reached = [], 0.0, None
    for line in lines:
        elapsed = line.get("elapsed_seconds", elapsed)
        if "valid_bleu" not in line:
            continue
        rows.append([f"{line['step']:,}", f"{elapsed / 60:.2f}", f"{line['valid_loss']:.3f}", f"{line['valid_bleu']:.1f}"])
        if reached is None and line["valid_bleu"] >= arguments.multi30k_bleu:
            reached = elapsed / 60
    when = "was not reached" if reached is None else f"was reached after {reached:.2f} minutes of training"
    return (f"`launch/recipes/multi30k.sh`, preset tiny, bf16, one process; {seconds / 60:.2f} minutes for text, training, average and test in total. "
            f"Validation BLEU {arguments.multi30k_bleu:g} {when}. Test:\n\n    {table.last_words(printed)}\n\n" +
            table.markdown(["step", "minutes", "valid loss", "valid BLEU"], rows))


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--attention-bench", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--pytorch", required=True, help="python with PyTorch for CUDA and h5py")
    parser.add_argument("--presets", nargs="+", default=["base", "big"])
    parser.add_argument("--batch-tokens", type=int, default=25344, help="rows of a side; 198 x 128, so that no padding to 128 is needed")
    parser.add_argument("--gemm-size", type=int, default=8192, help="rows of the large product")
    parser.add_argument("--seconds", type=float, default=16.0)
    parser.add_argument("--warmup-seconds", type=float, default=6.0)
    parser.add_argument("--compile-seconds", type=float, default=60.0)
    parser.add_argument("--attention-seconds", type=float, default=60.0)
    parser.add_argument("--attention-min-seconds", type=float, default=0.1)
    parser.add_argument("--attention-tokens", type=int, default=25344)
    parser.add_argument("--most-pairs", type=int, default=300000, help="of the corpus, for PyTorch to load")
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--budget-seconds", type=float, default=470.0, help="for all measurements except Multi30k")
    parser.add_argument("--multi30k", help="folder of text (launch/recipes/multi30k.sh): also train on it")
    parser.add_argument("--multi30k-bleu", type=float, default=39.0, help="target validation BLEU")
    parser.add_argument("--multi30k-minutes", type=float, default=5.0)
    parser.add_argument("--multi30k-steps", type=int, help="in place of the recipe's, to test the script")
    parser.add_argument("--device", default="cuda", help="of ventris")
    parser.add_argument("--peer-device", default="cuda", help="cpu, to test the script without a GPU")
    parser.add_argument("--ventris-options", default="", help="more options of ventris train, to test the script")
    parser.add_argument("--output", help="file for the tables")
    return parser.parse_args()


def report(arguments, product, training, attention, more):
    gemm, reason = product
    text = "## Training\n\n" + training_table(gemm, training)
    rate = f"{gemm / 1e12:.2f} TFLOP/s" if reason is None else f"not measured: {reason}"
    text += f"\nLarge bf16 product, {arguments.gemm_size:,} cubed: {rate}.\n\n{FORMULA}"
    for preset, found in training.items():
        if "failed" not in found[0][1]:
            text += "\n" + phase_table(gemm, preset, found[0][1]["result"]["profile"])
    if attention is not None:
        text += "\n## Attention\n\n" + attention_table(*attention)
    return text + more


def measure_product(arguments, clock):
    """Operations a second of the large product, and None or the reason why it was not measured."""
    more = ["--gemm", "--gemm-size", arguments.gemm_size, "--device", arguments.peer_device, "--precision", "bf16"]
    try:
        return 1e9 * table.run_json(table.peer_command(arguments.pytorch, "peer_pytorch.py", more), min(60, clock.left()))["gflops"], None
    except table.Failed as error:
        print(f"large product: {error}", file=sys.stderr)
        return None, str(error)


def main():
    arguments = options()
    clock = Clock(arguments.budget_seconds)
    version, reason = table.run([arguments.ventris, "--version"], 60)
    if reason is not None:
        sys.exit(f"error: {arguments.ventris} --version: {reason}")
    product = measure_product(arguments, clock)
    training, attention, more = {}, None, ""
    with tempfile.TemporaryDirectory(prefix="ventris-gpu-") as folder:
        # Attention before the second preset: it is short, and compiling may take all the remaining time.
        for preset in arguments.presets:
            training[preset] = measure_training(arguments, clock, preset)
            table.save(report(arguments, product, training, attention, more), arguments.output)
            if attention is None:
                attention = measure_attention(arguments, clock, folder)
                table.save(report(arguments, product, training, attention, more), arguments.output)
        seconds = arguments.budget_seconds - clock.end + time.monotonic()
        if arguments.multi30k:
            more = "\n## Multi30k\n\n" + multi30k(arguments, folder)
    more += f"\nAll except Multi30k took {seconds / 60:.1f} minutes.\n\n    " + version.strip().replace("\n", "\n    ") + "\n"
    table.write(report(arguments, product, training, attention, more), arguments.output)


if __name__ == "__main__":
    main()
