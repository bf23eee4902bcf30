# SPDX-License-Identifier: Apache-2.0
"""The tables of measurements on one GPU, in Markdown, of what checks.py and measure.py note. The first is for docs/results.md."""
import table

PRESETS = ("base", "big")
OURS = "ventris"


def card_table(measured):
    """One card: all that was measured, a column for each preset, and what is no matter of a preset in the first."""
    card, training = measured.get("card", {}), measured.get("training", {})
    products, kernels = (measured.get(name, {}) for name in ("products", "kernels"))
    rows = []

    def row(name, of_preset):
        """Leaves out what was measured for no preset."""
        cells = [of_preset(preset) or "" for preset in PRESETS]
        if any(cells):
            rows.append([name, *cells])

    def trained(trainer, form, beside_ours=False):
        def cell(preset):
            found, ours = (training.get(preset, {}).get(name) for name in (trainer, OURS))
            if not found or "failed" in found:
                return found and "failed"
            return form(found) + (f"; {ours['rate'] / found['rate']:.2f}" if beside_ours and ours and "rate" in ours else "")
        return cell

    row("**step, ms**", trained(OURS, lambda found: f"**{found['ms']:.2f}**"))
    row("target tokens/s", trained(OURS, lambda found: f"{found['rate']:,.0f}"))
    row("model FLOPs, TFLOP/s", trained(OURS, lambda found: f"{found['flops'] / 1e12:.1f}"))
    if products:
        row(f"MFU, of a product of {products['large']:,} cubed", trained(OURS, lambda found: f"{100 * found['flops'] / products['rate']:.1f} %"))
        row("its products alone, ms", lambda preset: f"{products['of_step'][preset]:.2f}")
    row("memory in use, MiB", trained(OURS, lambda found: f"{found['memory']:,}" if found["memory"] else ""))
    row("step without a graph, ms", trained(f"{OURS}, without a graph", lambda found: f"{found['ms']:.2f}"))
    row("kernels under `ncu`: all, products, ms", lambda preset: kernels.get(preset) and ", ".join(
        f"{sum(one['ms'] for one in kernels[preset] if of(one)):.2f}" for of in (lambda one: True, lambda one: not one["ours"])))
    row("device memory read and written, GB a step", lambda preset: kernels.get(preset) and all(one["bytes"] is not None for one in kernels[preset])
        and f"{sum(one['bytes'] for one in kernels[preset]) / 1e9:.1f}")
    peers = dict.fromkeys(name for found in training.values() for name in found if not name.startswith(OURS))
    for name in peers:
        note = next((found[name]["note"] for found in training.values() if "note" in found.get(name, {})), "")
        row(f"{name}{f' ({note})' if note else ''}, ms; ventris over it", trained(name, lambda found: f"{found['ms']:.2f}", beside_ours=True))
    for one in measured.get("variants", []):
        row(f"{one['name']} (`{one['options']}`): present, variant, ms",
            lambda preset, one=one: f"{one['present']:.2f}, {one['variant']:.2f}" if preset == one["preset"] else "")
    if products:
        rows.append(["copy of memory, TB/s", f"{products['copy'] / 1e12:.2f}", ""])
        rows.append([f"product of {products['large']:,} cubed, TFLOP/s", f"{products['rate'] / 1e12:.0f}", ""])
    for name, stage in measured["stages"].items():
        if name in ("tests", "digests", "ranks", "memcheck", "racecheck", "multi30k"):
            rows.append([f"`{name}`", f"{stage['outcome']}: {stage['words']}" if stage["words"] else stage["outcome"], ""])
    versions = {found["version"] for ways in training.values() for found in ways.values() if "version" in found}
    known = [f"driver {card.get('driver', 'unknown')}", f"CUDA: {card.get('CUDA', 'unknown')}", f"NCCL: {card.get('NCCL', 'unknown')}",
             *(f"PyTorch {version}" for version in sorted(versions)), f"commit {card.get('commit', 'unknown')}"]
    head = f"### {card.get('name', 'No card')}, {card.get('date', 'no date')}\n\n{', '.join(known)}; bf16, one device, by `tests/gpu/lease.sh`.\n\n"
    return head + table.markdown(["", *PRESETS], rows)


def stage_table(stages):
    rows = [[name, stage["outcome"], f"{stage['seconds']:.1f}", stage["words"]] for name, stage in stages.items()]
    return table.markdown(["stage", "outcome", "seconds", ""], rows)


def kernel_table(rows):
    total = sum(row["ms"] for row in rows)
    cells = [[row["kernel"], row["launches"], f"{row['ms']:.3f}", f"{100 * row['ms'] / total:.1f} %",
              "" if row["bytes"] is None else f"{row['bytes'] / row['ms'] / 1e9:.2f}", "" if row["tensor"] is None else f"{100 * row['tensor']:.0f} %"]
             for row in rows]
    return table.markdown(["kernel", "launches", "ms", "share", "TB/s", "tensor cores"], cells)


def product_table(products):
    cells = [[row["shape"], *(row[preset] or "" for preset in PRESETS), f"{row['ms']:.3f}", f"{flops(row) / row['ms'] / 1e9:.0f}"] for row in products["rows"]]
    return table.markdown(["m n k form", *(f"in a step of {preset}" for preset in PRESETS), "ms", "TFLOP/s"], cells)


def flops(row):
    m, n, k = map(int, row["shape"].split()[:3])
    return 2.0 * m * n * k


def summary(measured):
    """All tables for which something was measured."""
    text = card_table(measured) + "\n## Stages\n\n" + stage_table(measured["stages"])
    if "products" in measured:
        text += "\n## Products of a step, each alone\n\n" + product_table(measured["products"])
    for preset, rows in measured.get("kernels", {}).items():
        text += f"\n## Kernels of one step of {preset}\n\nBy `ncu`, each alone on the device.\n\n" + kernel_table(rows)
    if "machine" in measured:
        text += "\n## Machine\n\n" + "".join(f"    {line}".rstrip() + "\n" for line in measured["machine"].splitlines())
    return text
