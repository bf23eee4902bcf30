# SPDX-License-Identifier: Apache-2.0
"""Stages of lease.py that measure. As in checks.py, each is called with the Kit and its Stage, and returns words for the summary; what was
measured is in kit.measured, for tables.py. Where one of several measurements fails, the others are still made."""
import json
import os
import re
import shutil
import time

import checks
import kernel_bill_measured as measurements
import kernel_bill_step as plan
import kit as kits
import table

MANY = 10**6  # steps, more than there is time for


def measure_card(kit, stage):
    """The machine, what its memory and its products reach, and the products of a step."""
    words = checks.check_libraries(kit, stage)
    sizes = kit.sizes
    large = plan.Product("", 1, *[sizes.large] * 3)
    of_step = {preset: plan.step(shape, sizes.batch_tokens)[1] for preset, shape in sizes.shapes.items()}
    line = lambda product: f"{product.m} {product.n} {product.k} {'nn' if product is large else product.form}"
    lines = list(dict.fromkeys(map(line, [large, *(product for products in of_step.values() for product in products)])))
    with open(stage.path("products.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    printed = stage.run(kit.products_bench, kit.sizes.device, stage.path("products.txt")).output
    copy, *found = map(json.loads, printed.splitlines())
    ms = {row["product"]: row["ms"] for row in found}
    rows = [{"shape": text, "ms": ms[text], **{preset: sum(product.times for product in products if line(product) == text)
                                               for preset, products in of_step.items()}} for text in lines[1:]]
    rate = 1000 * large.flops / ms[lines[0]]
    kit.measured["products"] = {"large": sizes.large, "rate": rate, "copy": 1000 * copy["copied_bytes"] / copy["ms"], "rows": rows,
                                "of_step": {preset: sum(row[preset] * row["ms"] for row in rows) for preset in of_step}}
    return f"{words}; copy {kit.measured['products']['copy'] / 1e12:.2f} TB/s, product {rate / 1e12:.0f} TFLOP/s"


def train(kit, stage, name, preset, *options, seconds, warmup_seconds, **variables):
    """Steps without the first ones, until the time is over and there were two reports; then the run is ended. Raises table.Failed."""
    words = stage.training(name, *options, steps=MANY, preset=preset)
    since = lambda lines, seconds: [line for line in lines if line["elapsed_seconds"] - lines[0]["elapsed_seconds"] >= seconds]
    read = lambda: since(kits.metrics(stage.path(name), "elapsed_seconds"), warmup_seconds)
    with kits.Background(stage, words, **variables) as run:
        run.wait_for(lambda: len(since(read(), seconds)) > 0 and len(read()) > 1)
        counted = read()
    first, last = counted[0], counted[-1]
    took, steps, tokens = (last[key] - first[key] for key in ("elapsed_seconds", "step", "target_tokens"))
    shutil.rmtree(stage.path(name))
    flops, memory = ([line[key] for line in counted[1:] if key in line] for key in ("model_flops_per_second", "device_memory_bytes"))
    return {"ms": 1000 * took / steps, "rate": tokens / took, "tokens_per_update": round(tokens / steps), "steps": steps,
            "flops": sum(flops) / max(len(flops), 1), "memory": max(memory, default=0) >> 20}


def train_briefly(kit, stage, name, preset, *options, **variables):
    return train(kit, stage, name, preset, *options, seconds=kit.sizes.brief_seconds, warmup_seconds=kit.sizes.brief_warmup_seconds, **variables)


def keep(kit, failures, preset, trainer, work):
    """Notes what a trainer reaches, or that it failed."""
    found = failures.attempt(f"{preset}, {trainer}", work)
    kit.measured.setdefault("training", {}).setdefault(preset, {})[trainer] = found or {"failed": failures.reasons[-1]}


def measure_steps(kit, stage):
    failures, sizes = kits.Failures(stage), kit.sizes
    for preset in sizes.models:
        keep(kit, failures, preset, "ventris", lambda preset=preset: train(
            kit, stage, preset, preset, seconds=sizes.seconds, warmup_seconds=sizes.warmup_seconds))
    keep(kit, failures, "base", "ventris, without a graph", lambda: train_briefly(kit, stage, "launches", "base", "--no-cuda-graph"))
    failures.raise_any()
    return ", ".join(f"{preset} {found['ventris']['ms']:.2f} ms" for preset, found in kit.measured["training"].items())


def read_variants(path):
    """(name, preset, options, variables) of each line. Raises table.Failed."""
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            parts = [part.strip() for part in line.split("|")]
            if line.startswith("#") or not line.strip():
                continue
            if len(parts) != 3 or not all(parts):
                raise table.Failed(f"{path}:{number}: 'name | preset | options' is expected: {line.strip()}")
            words = parts[2].split()
            variables = dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))
            found.append((parts[0], parts[1], [word for word in words if not re.match("[A-Z_]+=", word)], variables))
    return found


def measure_variants(kit, stage):
    """Each variant of the list right after the present way."""
    failures, rows = kits.Failures(stage), []
    kit.measured["variants"] = rows
    for i, (name, preset, options, variables) in enumerate(read_variants(os.path.join(kit.source, "tests", "gpu", "variants.txt"))):
        def pair(i=i, name=name, preset=preset, options=options, variables=variables):
            present = train_briefly(kit, stage, f"present-{i}", preset)
            other = train_briefly(kit, stage, f"variant-{i}", preset, *options, **variables)
            rows.append({"name": name, "preset": preset, "options": " ".join([*options, *(f"{key}={value}" for key, value in variables.items())]),
                         "present": present["ms"], "variant": other["ms"]})

        failures.attempt(name, pair)
    failures.raise_any()
    return f"{len(rows)} pairs"


def measure_kernels(kit, stage):
    """Each kernel of one step of each preset: its time, its bytes of device memory, and how busy it keeps the tensor cores."""
    failures, ncu = kits.Failures(stage), checks.find_tool("ncu")
    found = kit.measured["kernels"] = {}
    for left, preset in zip(range(len(kit.sizes.models), 0, -1), kit.sizes.models):
        def work(left=left, preset=preset):
            end = time.monotonic() + stage.left() / left
            for metrics in (measurements.METRICS, measurements.METRICS[:1]):  # an older ncu may not know the others
                try:
                    found[preset] = profile(kit, stage, ncu, preset, metrics, max(1.0, end - time.monotonic()))
                    return
                except ValueError as error:
                    failed = error
            raise failed

        failures.attempt(preset, work)
    failures.raise_any()
    return ", ".join(f"{preset} {sum(row['ms'] for row in rows):.2f} ms in {sum(row['launches'] for row in rows)} kernels" for preset, rows in found.items())


def profile(kit, stage, ncu, preset, metrics, seconds):
    """The kernels of a step, the longest first. Raises ValueError if ncu did not see a whole step."""
    launches, products, _ = plan.step(kit.sizes.shapes[preset])
    count = sum(one.times for one in [*launches, *products])
    rows = stage.path(f"{preset}-{len(metrics)}.csv")
    # From about the middle of the first step for two and a half: a product may be more launches than one. The stages before have chosen
    # the algorithms of products, which else would be tried here.
    finished = stage.attempt(
        ncu, "--cache-control", "none", "--clock-control", "none", "--target-processes", "application-only", "--csv", "--page", "details", "--print-units",
        "base", "--metrics", ",".join(metrics), "--launch-skip", count // 2, "--launch-count", 5 * count // 2, "--kill", "yes", "--log-file", rows,
        *kit.without_shell(stage.training(f"{preset}-{len(metrics)}", "--no-cuda-graph", steps=6, preset=preset)), most=seconds)
    if not os.path.exists(rows):
        raise ValueError(f"ncu wrote nothing; {finished.reason}")
    with open(rows, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        step = measurements.one_step(text)
    except ValueError as error:
        raise ValueError(f"{error}; {finished.reason or 'ncu ended well'}; {table.last_words(text)}") from error
    table.save(step, kit.result(f"kernels_{preset}.csv"))
    kernels = measurements.kernels_of(step)
    return [{"kernel": name, "launches": kernel.launches, "ms": kernel.ms, "bytes": kernel.bytes,
             "tensor": None if kernel.tensor_ms is None else kernel.tensor_ms / kernel.ms, "ours": name in plan.OUR_KERNELS}
            for name, kernel in sorted(kernels.items(), key=lambda item: -item[1].ms)]


def peer_command(kit, script, preset, *options):
    sizes = kit.sizes
    return table.peer_command(kit.python, script, ["--device", sizes.peer_device, "--corpus", kit.ids, "--preset", sizes.peer_presets[preset],
                                                  "--batch-tokens", sizes.batch_tokens, *sizes.peer_options, *options])


def peer_found(got):
    rate = got["target_tokens_per_second"]
    return {"rate": rate, "ms": 1000 * got["tokens_per_update"] / rate, "tokens_per_update": got["tokens_per_update"],
            "allocated": got["peak_memory_mib"], "version": re.sub(r"[+].*", "", got["version"])}


def measure_eager(kit, stage):
    """The same models in PyTorch, padded and not compiled."""
    failures, sizes = kits.Failures(stage), kit.sizes
    for left, preset in zip(range(len(sizes.models), 0, -1), sizes.models):
        command = peer_command(kit, "peer_pytorch.py", preset, "--precision", "bf16", "--seconds", sizes.peer_seconds, "--warmup-seconds",
                               sizes.peer_warmup_seconds)
        keep(kit, failures, preset, "PyTorch, padded", lambda left=left, command=command: peer_found(
            table.run_json(command, stage.left() / left, kit.environment())))
    failures.raise_any()
    return ", ".join(f"{preset} {found['PyTorch, padded']['ms']:.2f} ms" for preset, found in kit.measured["training"].items())


PACKED, COMPILED = "PyTorch, packed", "PyTorch, packed, compiled"


def measure_packed(kit, stage):
    """The same models in PyTorch without padding, as they are and compiled."""
    failures, sizes = kits.Failures(stage), kit.sizes
    training = kit.measured.setdefault("training", {})
    for left, preset in zip(range(len(sizes.models), 0, -1), sizes.models):
        def work(left=left, preset=preset):
            command = peer_command(kit, "peer_packed.py", preset, "--seconds", sizes.packed_seconds, "--compile-seconds", sizes.compile_seconds)
            # A compilation that is ended leaves half a file in PyTorch's cache, with which the next one would fail; and libraries there are
            # loaded, which a folder in memory may forbid.
            cache = os.path.join(kit.root, f"inductor-{preset}")
            lines, reason = table.run_lines(command, stage.left() / left, kit.environment(TORCHINDUCTOR_CACHE_DIR=cache))
            for got in lines:
                note = f"{got['attention']}, attention dropout {got['attention_dropout']:g}"
                found = {"failed": got["failed"]} if "failed" in got else peer_found(got)
                training.setdefault(preset, {})[COMPILED if got["compile"] else PACKED] = {**found, "note": note}
            failed = reason or next((got["failed"] for got in lines if "failed" in got), None)
            if failed:
                training.setdefault(preset, {}).setdefault(COMPILED if lines else PACKED, {"failed": failed})
                raise table.Failed(failed)

        failures.attempt(preset, work)
    failures.raise_any()
    return ", ".join(f"{preset} {found[COMPILED]['ms']:.2f} ms" for preset, found in training.items())
