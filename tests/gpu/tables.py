"""The tables of measurements on one GPU, in Markdown, of what measure.py returns."""
import table

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


def shown(value, form):
    return "not measured" if value is None else format(value, form)


def ratio(value, other):
    return "" if value is None or other is None else f"{value / other:.2f}"


def training_table(gemm, training):
    header = ["preset", "trainer", "ms a step", "target tokens a step", "target tokens/s", "of best PyTorch", "model FLOPs", "MFU",
              "MiB on the device", "MiB of tensors"]
    rows = []
    for preset, found in sorted(training.items()):
        best = max((m["rate"] for name, m in found.items() if "failed" not in m and name != "ventris"), default=None)
        for name, m in found.items():
            trainer = f"{name} ({m['version']})" if "version" in m else name
            if "failed" in m:
                rows.append([preset, trainer, f"not measured: {m['failed']}", *[""] * 7])
                continue
            flops = m.get("flops")
            rows.append([preset, trainer, f"{m['ms']:.2f}", f"{m['tokens_per_update']:,}", f"{m['rate']:,.0f}", ratio(m["rate"], best),
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
    """Token counts of the batch or None; [(preset, dropout, {way: {side: ms or the reason of a failure}})]; [(program, reason)] of failures."""
    rows, reasons = [], []

    def cell(ms):
        if not isinstance(ms, str):
            return f"{ms:.3f}"
        if ms not in reasons:
            reasons.append(ms)
        return f"({1 + reasons.index(ms)})"

    for preset, rate, ways in sorted(found, key=lambda line: line[:2]):
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


def kernel_table(kernels):
    """The costliest kernels of a step, and what bounds them."""
    rows = []
    for row in kernels["rows"]:
        details = row.get("details", {})
        rows.append([row["kernel"], f"{row['launches']:.1f}", f"{row['ms']:.3f}", f"{100 * row['ms'] / kernels['total_ms']:.1f} %",
                     *(details.get(name, "") for name in kernels["details"])])
    text = table.markdown(["kernel", "launches a step", "ms a step", "share", *kernels["details"]], rows)
    return (f"By `ncu --clock-control none`, means of {kernels['steps']} steps of base without a graph, {kernels['launches']:.1f} launches and "
            f"{kernels['total_ms']:.3f} ms of kernels a step, each alone on the device. The last columns are one launch of each.\n\n" + text)


def rank_table(ranks):
    rows = [[row["ranks"], row["reduction"], "yes" if row["graph"] else "no", row["step"], row["digest"]] for row in ranks]
    return "All ranks on one device, a host to NCCL each (`NCCL_HOSTID`).\n\n" + table.markdown(["ranks", "reduction", "graph", "step", "digest"], rows)


def multi30k_table(found):
    rows = [[f"{line['step']:,}", f"{line['minutes']:.2f}", f"{line['valid_loss']:.3f}", f"{line['valid_bleu']:.1f}"] for line in found["validations"]]
    return (f"`launch/recipes/multi30k.sh`, preset tiny, one process: {found['minutes']:.2f} minutes for text, training, average and test in total. "
            f"Test, on the CPU {found['cpu_bleu']}:\n\n    {found['test']}\n\n" + table.markdown(["step", "minutes", "valid loss", "valid BLEU"], rows))


def stage_table(stages):
    rows = [[name, stage["outcome"], f"{stage['seconds']:.1f}", stage["words"]] for name, stage in stages.items()]
    return table.markdown(["stage", "outcome", "seconds", ""], rows)


def summary(measured):
    """All tables for which something was measured."""
    text = "# First hour on a GPU\n\n" + stage_table(measured["stages"])
    gemm = measured.get("gemm")
    if "training" in measured:
        text += "\n## Training\n\n" + training_table(gemm, measured["training"])
        text += f"\nLarge bf16 product: {'not measured' if gemm is None else f'{gemm / 1e12:.2f} TFLOP/s'}.\n\n{FORMULA}"
    if "profile" in measured:
        text += "\n" + phase_table(gemm, "base", measured["profile"])
    if "kernels" in measured:
        text += "\n## Kernels\n\n" + kernel_table(measured["kernels"])
    if "attention" in measured:
        text += "\n## Attention\n\n" + attention_table(**measured["attention"])
    if "ranks" in measured:
        text += "\n## Ranks\n\n" + rank_table(measured["ranks"])
    if "multi30k" in measured:
        text += "\n## Multi30k\n\n" + multi30k_table(measured["multi30k"])
    if "machine" in measured:
        text += "\n## Machine\n\n" + "".join(f"    {line}".rstrip() + "\n" for line in measured["machine"].splitlines())
    return text
