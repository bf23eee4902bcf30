# SPDX-License-Identifier: Apache-2.0
"""Stages of lease.py that check what the programs compute. Each is called with the Kit and its Stage, and returns words for the summary;
it raises table.Failed or kit.NoDevice. Where one of several checks fails, the others are still made."""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import time

import kit as kits
import table

# Slow under a tool that watches every access; the operations of a model are tested alone, too.
OPERATIONS = "-*Model*:*Golden*:*Training*:*Validation*:*Optimizer*"
# Kernels with shared memory and exchanges between threads, attention and those that work on rows, without the shapes that take longest.
ROWS = ("*Attention*:*LayerNorm*:*CrossEntropy*:*LogSoftmaxTopK*:*LogProbability*:*BiasBackward*:*SumOf*Squares*"
        "-*LayerNorm*rate30:*67x1024*:*x4093*:*x4104*:*x16384*:*x2600*:*x8208*:*x12288*:*x24576*:*x60000*:*300x521*"
        ":*Attention.*f32_self_*:*Attention.*f32_across_*:*Attention.*f32_long*:*bf16_every_short_length_causal*:*bf16_wide_causal*")
ERROR_OF_SANITIZER = 9
NCCL_REFUSES = re.compile(r"nccl\w+ failed: .*")
LATE = 5  # seconds of --comm-timeout
LOSS_TOLERANCE = 0.02  # relative, of a few steps with other sums of gradients


def find_tool(name):
    """The path of a tool of CUDA. Raises table.Failed."""
    path = shutil.which(name)
    if path:
        return path
    for pattern in kits.DEVICE_TOOLS:
        for folder in sorted(glob.glob(pattern), reverse=True):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK):
                return path
    raise table.Failed(f"{name} is neither on the PATH nor in {', '.join(kits.DEVICE_TOOLS)}")


def version_of(text):
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def check_libraries(kit, stage):
    """Notes what the machine is. Returns the first line of `ventris --version`."""
    missing, report = kit.find_libraries()
    stage.note(report)
    there = os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    machine = f"{report}C library: {there}; the programs need {kit.facts['glibc']}\n"
    driver = stage.attempt("nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader", most=20)
    machine += driver.output if driver.code == 0 else f"nvidia-smi: {driver.reason}\n"
    for tool in ("compute-sanitizer", "ncu"):
        try:
            machine += f"{tool}: {find_tool(tool)}\n"
        except table.Failed as error:
            machine += f"{error}\n"
    torch = stage.attempt(kit.python, "-c", "import importlib.metadata; print('PyTorch', importlib.metadata.version('torch'))", most=20)
    machine += torch.output if torch.code == 0 else f"{kit.python} has no PyTorch: {torch.reason}\n"
    kit.measured["machine"] = machine
    card = kit.measured["card"] = {"date": time.strftime("%Y-%m-%d")}
    if driver.code == 0 and driver.output.strip():
        card.update(zip(("name", "driver", "memory", "power"), map(str.strip, driver.output.splitlines()[0].split(","))))
    if version_of(there) < version_of(kit.facts["glibc"]):
        raise table.Failed(f"the C library is {there}, but the programs need {kit.facts['glibc']}; pack on a machine with an older one")
    if missing:
        raise table.Failed(f"not found: {', '.join(missing)}; the log tells where it was looked for")
    version = stage.run(kit.ventris, "--version").output
    kit.measured["machine"] += version
    card.update(re.findall(r"(?:^|\()(CUDA|NCCL|commit):? *(.*?)\)?$", version, re.MULTILINE))
    return version.splitlines()[0]


def passed_tests(finished):
    found = re.search(r"\[  PASSED  \] (\d+) test", finished.output)
    if not found or found[1] == "0":
        raise table.Failed("no test ran")
    return f"{found[1]} tests"


def run_tests(kit, stage):
    return passed_tests(stage.run(kit.tests, f"--gtest_filter={kit.sizes.test_filter}", "--gtest_brief=1"))


def sanitize(tool, tests):
    """A stage that runs tests under a tool of compute-sanitizer."""
    def check(kit, stage):
        words = [find_tool("compute-sanitizer"), "--tool", tool, "--target-processes", "all", "--error-exitcode", ERROR_OF_SANITIZER]
        selected = tests if kit.sizes.test_filter == "*" else kit.sizes.test_filter
        finished = stage.attempt(*words, kit.tests, f"--gtest_filter={selected}")
        if finished.code == ERROR_OF_SANITIZER:
            raise table.Failed(f"{tool} found: {table.last_words(finished.output)}")
        if finished.code is None and "========= ERROR SUMMARY" not in finished.output:
            done, errors = finished.output.count("[       OK ]"), finished.output.count("========= Error:") + finished.output.count("========= Invalid")
            raise table.Failed(f"{finished.reason}; {errors} errors in the {done} tests until then")
        if finished.code != 0:
            raise table.Failed(finished.reason)
        return passed_tests(finished)

    return check


def compare(stage, ways, steps, **training):
    """Runs with these options, {name: options}: equal digests of the last step. If they differ, digests of each step tell from where on."""
    def found(name, options, every):
        return kits.digests(stage.train(f"{name}-{training.get('precision', 'bf16')}-{every}", *options, steps=steps, digest_every=every, **training))

    last = [found(name, options, steps) for name, options in ways.items()]
    try:
        kits.require_equal(list(ways), last)
    except table.Failed:
        kits.require_equal(list(ways), [found(name, options, 1) for name, options in ways.items()])
        raise


GRAPH = {"graph": [], "launches": ["--no-cuda-graph"]}


def compare_digests(kit, stage):
    """Steps replayed as a graph against single launches, and a run that is killed and resumed against one that is not."""
    sizes, failures = kit.sizes, kits.Failures(stage)
    failures.attempt("graph, base in bf16", lambda: compare(stage, GRAPH, sizes.few_steps))
    failures.attempt("graph, tiny in f32", lambda: compare(stage, GRAPH, sizes.few_steps, small=True, precision="f32"))
    before = failures.attempt("resume", lambda: kill_and_resume(kit, stage))
    failures.raise_any()
    return f"equal digests with a graph and without, and of {sizes.many_steps} steps killed after the checkpoint of step {before} and resumed"


def newest_step(folder):
    names = glob.glob(os.path.join(folder, "checkpoint-*.h5"))
    return max((int(re.findall(r"\d+", os.path.basename(name))[0]) for name in names), default=0)


def kill_and_resume(kit, stage):
    """Returns the step of the checkpoint from which the run went on."""
    sizes = kit.sizes
    training = {"steps": sizes.many_steps, "small": True, "save_every": sizes.save_every}
    whole = stage.train("whole", **training)
    words = stage.training("killed", digest_every=sizes.many_steps, **training)
    with kits.Background(stage, words, **kits.UNTIMED) as run:
        run.wait_for(lambda: newest_step(stage.path("killed")) >= 2 * sizes.save_every)
    before = newest_step(stage.path("killed"))
    if before >= sizes.many_steps:
        raise table.Failed("the run was done before it was killed")
    stage.run(*words, **kits.UNTIMED)
    kits.require_equal(("the uninterrupted run", "the killed and resumed run"), [kits.digests(whole), kits.digests(stage.path("killed"))])
    return before


REPRODUCIBLE, FAST = ["--reduction", "reproducible"], ["--reduction", "fast"]
KINDS = {  # of runs of several ranks: options, and whether the result is that of one rank to the bit
    "reproducible": (REPRODUCIBLE, True),
    "fast": (FAST, False),
    "fast, gradients in bf16": ([*FAST, "--gradient-dtype", "bf16"], False),
    "reproducible, sharded optimizer": ([*REPRODUCIBLE, "--shard-optimizer"], True),
}


def ranks_on_one_device(kit, stage):
    """NCCL between ranks that share the device: sums of all kinds, a rank that dies, and one that stands still."""
    failures, rows = kits.Failures(stage), []
    kit.measured["ranks"] = rows
    few = kit.sizes.few_steps

    def run(model, kind, ranks, options):
        """Digest and loss of the last step."""
        name = f"{model}-{ranks}-{kind.replace(', ', '-').replace(' ', '-')}"
        words = stage.training(name, *options, steps=few, digest_every=few, small=model == "tiny")
        stage.run(*launch(kit, ranks, words), **OF_NCCL)
        digest = kits.digests(stage.path(name)).get(few, "none")
        rows.append({"model": model, "ranks": ranks, "sums": kind, "loss": kits.metrics(stage.path(name), "loss")[-1]["loss"], "digest": digest})
        return rows[-1]

    def check(kind, options, exact):
        # Runs of two and of four ranks at a time: they mostly wait for their start.
        with concurrent.futures.ThreadPoolExecutor(len(kit.sizes.ranks)) as pool:
            for found in pool.map(lambda ranks: run("tiny", kind, ranks, options), kit.sizes.ranks):
                if exact and found["digest"] != one["digest"]:
                    raise table.Failed(f"{found['ranks']} ranks have the digest {found['digest']}, one rank has {one['digest']}")
                if not abs(found["loss"] - one["loss"]) <= LOSS_TOLERANCE * one["loss"]:
                    raise table.Failed(f"{found['ranks']} ranks have the loss {found['loss']:.4f}, one rank has {one['loss']:.4f}")

    failures.attempt("2 ranks of base", lambda: run("base", "fast", 2, FAST))
    one = failures.attempt("1 rank", lambda: run("tiny", "reproducible", 1, REPRODUCIBLE))
    for kind, (options, exact) in KINDS.items():
        if one is not None:
            failures.attempt(kind, lambda kind=kind, options=options, exact=exact: check(kind, options, exact))
    seconds = failures.attempt("kill -9 of a rank", lambda: lose_a_rank(kit, stage, signal.SIGKILL, 137, "exited on signal 9"))
    late = failures.attempt("SIGSTOP of a rank", lambda: lose_a_rank(kit, stage, signal.SIGSTOP, 69, "--comm-timeout"))
    refused = NCCL_REFUSES.search(stage.messages)
    if failures.reasons and refused:
        failures.reasons.insert(0, f"NCCL refuses: {refused[0]}")
    failures.raise_any()
    return f"{len(rows)} runs agree; a job ended {seconds:.1f} s after a rank was killed, {late:.1f} s after one was stopped"


# Ranks that are hosts of their own to NCCL, which else refuses to share a device.
OF_NCCL = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN", **kits.UNTIMED}


def launch(kit, ranks, words):
    launcher = [kit.mpirun, "--oversubscribe", "--bind-to", "none"]
    for rank in range(ranks):
        launcher += [*([":"] if rank else []), "-np", 1, "-x", f"NCCL_HOSTID=ventris-{rank}", *words]
    return launcher


def lose_a_rank(kit, stage, sent, code, says):
    """Sends a signal to the second of two ranks in the middle of steps. Returns the seconds until the job ended, with this exit code, these
    words and no process left."""
    name = sent.name.lower()
    words = stage.training(name, *FAST, "--comm-timeout", LATE, steps=10**6, small=True)
    with kits.Background(stage, launch(kit, 2, words), **OF_NCCL) as job:
        job.wait_for(lambda: len(kits.metrics(stage.path(name), "loss")) >= 2)
        ranks = job.children()
        begin = time.monotonic()
        os.kill(ranks[1], sent)
        ended = job.end(LATE + 15)
        while any(map(runs, ranks)) and time.monotonic() < begin + LATE + 15:
            time.sleep(0.01)
        seconds, text = time.monotonic() - begin, job.said()
        left = [rank for rank in ranks if runs(rank)]
    if ended != code or says not in text or left:
        raise table.Failed(f"exit code {ended}, {code} expected with '{says}'; {len(left)} ranks left: {table.last_words(text)}")
    return seconds


def runs(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def train_multi30k(kit, stage):
    """launch/recipes/multi30k.sh to the score that the CPU reached."""
    if not os.path.isdir(kit.multi30k):
        raise table.Failed("the archive has no text of Multi30k; pack.sh --multi30k FOLDER adds it")
    # Without a device supervise.sh, which the recipe calls, would try again and again.
    stage.run(kit.tests, "--gtest_filter=none")
    run = stage.path("run")
    recipe = os.path.join(kit.source, "launch", "recipes", "multi30k.sh")
    variables = {"RANKS": "1", "MAX_MINUTES": f"{0.7 * stage.left() / 60:.3f}", **kit.sizes.multi30k}
    finished = stage.run("bash", recipe, kit.multi30k, run, VENTRIS=kit.ventris, **variables)
    with open(os.path.join(run, "model", "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    elapsed, validations = 0.0, []
    for line in lines:
        elapsed = line.get("elapsed_seconds", elapsed)
        if "valid_bleu" in line:
            validations.append({"step": line["step"], "minutes": elapsed / 60, "valid_loss": line["valid_loss"], "valid_bleu": line["valid_bleu"]})
    words = table.last_words(finished.output)
    kit.measured["multi30k"] = {"minutes": stage.seconds() / 60, "cpu_bleu": kit.sizes.multi30k_bleu, "validations": validations, "test": words}
    score = re.search(r"= ([0-9.]+)", words)
    if not score:
        raise table.Failed(f"no score: {words}")
    if float(score[1]) < kit.sizes.multi30k_bleu - kit.sizes.multi30k_tolerance:
        raise table.Failed(f"BLEU {score[1]}, on the CPU {kit.sizes.multi30k_bleu}")
    return f"BLEU {score[1]}, on the CPU {kit.sizes.multi30k_bleu}"
