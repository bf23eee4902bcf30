"""Stages of first_hour.py that measure. As in checks.py, each is called with the Kit and its Stage, and returns words for the summary;
what was measured is in kit.measured, for tables.py. Where one of several measurements fails, the others are still made."""
import csv
import json
import re
import shutil

import checks
import kit as kits
import limits
import table

SHOWN_DETAILS = {  # metrics of ncu's sections, and how the table calls them
    "Memory Throughput": "memory, %",
    "Compute (SM) Throughput": "SM, %",
    "Achieved Occupancy": "occupancy, %",
    "Registers Per Thread": "registers",
}
SECTIONS = ("SpeedOfLight", "Occupancy", "LaunchStats", "WarpStateStats", "MemoryWorkloadAnalysis")
DURATION = "gpu__time_duration.sum"
COSTLIEST = 10
STEPS_UNDER_NCU = 3


class Failures:
    """Collects the reasons of measurements that failed."""

    def __init__(self, stage):
        self.stage, self.reasons = stage, []

    def attempt(self, name, measure):
        """The result of measure(), or {"failed": reason}, and the peak memory of the device during it as "memory"."""
        with kits.DeviceMemory() as memory:
            try:
                self.stage.left()
                found = measure()
            except table.Failed as error:
                self.reasons.append(f"{name}: {error}")
                found = {"failed": str(error)}
        found["memory"] = memory.mib()
        return found

    def raise_any(self):
        if self.reasons:
            raise table.Failed("; ".join(self.reasons))


def train_ventris(kit, stage, preset, *options, seconds, warmup_seconds):
    sizes = kit.sizes
    extra = ["--device", sizes.device, "--log-every", str(sizes.log_every), *sizes.models[preset], *sizes.options, *options]
    return table.train_ventris([], kit.ventris, kit.corpus, preset, "bf16", sizes.batch_tokens, seconds, warmup_seconds, extra, stage.left(),
                               kit.environment())


def measure_steps(kit, stage):
    failures = Failures(stage)
    for preset in kit.sizes.models:
        found = failures.attempt(preset, lambda preset=preset: train_ventris(
            kit, stage, preset, seconds=kit.sizes.seconds, warmup_seconds=kit.sizes.warmup_seconds))
        kit.measured.setdefault("training", {}).setdefault(preset, {})["ventris"] = found
    failures.raise_any()
    return ", ".join(f"{preset} {found['ventris']['ms']:.2f} ms" for preset, found in kit.measured["training"].items())


def measure_profile(kit, stage):
    words = stage.training("run", "--profile", "--json", steps=kit.sizes.profile_steps, digest_every=0)
    profile = json.loads(stage.run(*words).output.strip().splitlines()[-1])["profile"]
    kit.measured["profile"] = profile
    return f"{profile['step_ms']:.2f} ms a step without a graph, mean of {profile['steps']}"


def rows_of_ncu(path):
    """The rows of `ncu --csv --page details`, without the messages before them."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return list(csv.DictReader(line for line in file if line.startswith('"')))


def short_name(kernel):
    """Without return type, parameters and namespaces of ours."""
    name = re.sub(r"<unnamed>::|\(anonymous namespace\)::|ventris::|^void ", "", kernel)
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:  # not that of a cast in a template's argument
            return name[:i]
    return name


def function_name(kernel):
    """As `ncu --kernel-name` matches it: also without arguments of templates and all namespaces."""
    return short_name(kernel).split("<")[0].split("::")[-1]


def measure_kernels(kit, stage):
    """Kernels by their times, and the costliest ones in detail."""
    ncu = checks.find_tool("ncu")
    common = [ncu, "--clock-control", "none", "--target-processes", "application-only", "--csv", "--page", "details", "--print-units", "base"]
    # Without trials of products that tuning makes: those of the earlier stages are on file.
    training = lambda name: kit.without_shell(stage.training(name, "--no-cuda-graph", steps=STEPS_UNDER_NCU, digest_every=0))
    stage.run(*training("choices"))
    times = stage.path("times.csv")
    stage.run(*common, "--metrics", DURATION, "--log-file", times, *training("times"))
    total, launches = {}, {}
    for row in rows_of_ncu(times):
        if row["Metric Name"] == DURATION:
            name = row["Kernel Name"]
            total[name] = total.get(name, 0.0) + float(row["Metric Value"].replace(",", ""))
            launches[name] = launches.get(name, 0) + 1
    if not total:
        raise table.Failed("ncu saw no kernel")
    shutil.copy(times, kit.result("kernels.csv"))
    costliest = sorted(total, key=total.get, reverse=True)[:COSTLIEST]
    rows = [{"kernel": short_name(name), "name": name, "launches": launches[name] / STEPS_UNDER_NCU, "ms": total[name] / STEPS_UNDER_NCU / 1e6}
            for name in costliest]
    kit.measured["kernels"] = {"steps": STEPS_UNDER_NCU, "launches": sum(launches.values()) / STEPS_UNDER_NCU,
                               "total_ms": sum(total.values()) / STEPS_UNDER_NCU / 1e6, "rows": rows, "details": list(SHOWN_DETAILS.values())}
    details = stage.path("details.csv")
    functions = sorted({re.escape(function_name(name)) for name in costliest})
    # One launch of each shape, of a step after the first.
    stage.run(*common, *[word for section in SECTIONS for word in ("--section", section)], "--kernel-name", f"regex:^({'|'.join(functions)})$",
              "--filter-mode", "per-launch-config", "--launch-skip", 1, "--launch-count", 1, "--log-file", details, *training("details"))
    found = {}
    for row in rows_of_ncu(details):
        if row["Metric Name"] in SHOWN_DETAILS:
            found.setdefault(row["Kernel Name"], {}).setdefault(SHOWN_DETAILS[row["Metric Name"]], row["Metric Value"])
    for row in rows:
        row["details"] = found.get(row["name"], {})
    shutil.copy(details, kit.result("kernel_details.csv"))
    return f"{kit.measured['kernels']['total_ms']:.2f} ms of kernels a step, {len(found)} in detail"


def measure_attention(kit, stage):
    """The three attentions of a layer, ours and PyTorch's on the same sentences."""
    sizes = kit.sizes
    output = stage.path("attention.json")
    with open(kit.pairs, encoding="utf-8") as file:
        pairs = [tuple(map(int, line.split())) for line in file]
    tokens = {"pairs": len(pairs), "source": sum(pair[0] for pair in pairs), "target": sum(pair[1] for pair in pairs)}
    measured = kit.measured["attention"] = {"tokens": tokens, "found": [], "ended": []}
    found = {}
    try:
        stage.run(kit.attention_bench, "--device", sizes.device, "--pairs", kit.pairs, "--benchmark_format=console", "--benchmark_out_format=json",
                  f"--benchmark_out={output}", f"--benchmark_min_time={sizes.attention_min_seconds}", most=limits.of_attention(sizes)[0])
        with open(output, encoding="utf-8") as file:
            for line in json.load(file)["benchmarks"]:
                _, preset, side, *rest = line["name"].split("/")
                ways = found.setdefault((preset, 0.1 if "dropout" in rest else 0.0), {})
                ways.setdefault("ventris", {})[side] = line["real_time"]
    except table.Failed as error:
        measured["ended"].append(("ventris", str(error)))
    seconds = min(sizes.attention_seconds, max(1.0, stage.left() - 20))
    command = table.peer_command(kit.python, "peer_attention.py", ["--corpus", kit.ids, "--batch-tokens", max(tokens["source"], tokens["target"]), "--pairs",
                                                                       kit.pairs, "--device", sizes.peer_device, "--seconds", seconds])
    lines, reason = table.run_lines(command, min(limits.of_attention(sizes)[1], stage.left()), kit.environment())
    for line in lines:
        name = line["way"] if line["way"] == line["backend"] else f"{line['way']}, {line['backend']}"
        ways = found.setdefault((line["preset"], line["dropout"]), {})
        ways.setdefault(f"PyTorch, {name}" if name else "PyTorch, the rest", {})[line["side"]] = line.get("ms", line.get("failed"))
    if reason is not None:
        measured["ended"].append(("PyTorch", reason))
    measured["found"] = [[*key, ways] for key, ways in found.items()]
    if measured["ended"]:
        raise table.Failed("; ".join(f"{who}: {why}" for who, why in measured["ended"]))
    return f"{len(lines)} measurements of PyTorch"


def measure_pytorch(compiled):
    """A stage that trains the same models in PyTorch."""
    name = "PyTorch, torch.compile of layers and loss" if compiled else "PyTorch, eager"

    def train(kit, stage, preset):
        sizes = kit.sizes
        options = ["--device", sizes.peer_device, "--precision", "bf16", "--corpus", kit.ids, "--preset", sizes.peer_presets[preset],
                   "--batch-tokens", sizes.batch_tokens, "--seconds", sizes.seconds, "--warmup-seconds", sizes.warmup_seconds,
                   *sizes.peer_options]
        variables = {}
        if compiled:
            options += ["--compile", "--regional", "--compile-seconds", sizes.compile_seconds]
            variables["TORCHINDUCTOR_CACHE_DIR"] = stage.path("inductor")
        most = min(limits.of_peer(sizes, compiled), stage.left())
        try:
            got = table.run_json(table.peer_command(kit.python, "peer_pytorch.py", options), most, kit.environment(**variables))
        except table.Failed:
            # A compilation that is ended leaves half a file in PyTorch's cache, with which the next one would fail.
            shutil.rmtree(stage.path("inductor"), ignore_errors=True)
            raise
        rate = got["target_tokens_per_second"]
        return {"rate": rate, "ms": 1000 * got["tokens_per_update"] / rate, "tokens_per_update": got["tokens_per_update"],
                "allocated": got["peak_memory_mib"], "version": re.sub(r"[+].*", "", got["version"])}

    def measure(kit, stage):
        failures = Failures(stage)
        if not compiled:
            product = failures.attempt("large product", lambda: large_product(kit, stage))
            kit.measured["gemm"] = product.get("rate")
        training = kit.measured.setdefault("training", {})
        for preset in kit.sizes.models:
            training.setdefault(preset, {})[name] = failures.attempt(preset, lambda preset=preset: train(kit, stage, preset))
        failures.raise_any()
        return ", ".join(f"{preset} {found[name]['ms']:.2f} ms" for preset, found in training.items())

    return measure


def large_product(kit, stage):
    options = ["--gemm", "--gemm-size", kit.sizes.gemm_size, "--device", kit.sizes.peer_device, "--precision", "bf16"]
    got = table.run_json(table.peer_command(kit.python, "peer_pytorch.py", options), min(limits.PRODUCT, stage.left()), kit.environment())
    return {"rate": 1e9 * got["gflops"]}
