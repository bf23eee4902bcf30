"""Stages of first_hour.py that check what the programs compute. Each is called with the Kit and its Stage, and returns words for the
summary; it raises table.Failed or kit.NoDevice."""
import glob
import json
import os
import re
import shutil
import sys
import time

import kit as kits
import table

# Slow under a tool that watches every access; the operations of a model are tested alone, too.
OPERATIONS = "-*Model*:*Golden*:*Training*:*Validation*:*Optimizer*"
# Kernels with shared memory and exchanges between threads: attention, and those that work on rows.
ROWS = "*Attention*:*LayerNorm*:*CrossEntropy*:*LogSoftmaxTopK*:*LogProbability*:*BiasBackward*:*SumOf*Squares*"
ERROR_OF_SANITIZER = 9
NCCL_REFUSES = re.compile(r"nccl\w+ failed: .*")


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
    missing, report = kit.find_libraries()
    stage.note(report)
    there = os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    machine = f"{report}C library: {there}; the programs need {kit.facts['glibc']}\n"
    driver = stage.attempt("nvidia-smi", "-L", most=20)
    machine += driver.output if driver.code == 0 else f"nvidia-smi: {driver.reason}\n"
    for tool in ("compute-sanitizer", "ncu"):
        try:
            machine += f"{tool}: {find_tool(tool)}\n"
        except table.Failed as error:
            machine += f"{error}\n"
    torch = stage.attempt(kit.python, "-c", "import torch; print(f'PyTorch {torch.__version__}')", most=60)
    machine += torch.output if torch.code == 0 else f"{kit.python} has no PyTorch: {torch.reason}\n"
    kit.measured["machine"] = machine
    if version_of(there) < version_of(kit.facts["glibc"]):
        raise table.Failed(f"the C library is {there}, but the programs need {kit.facts['glibc']}; pack on a machine with an older one")
    if missing:
        raise table.Failed(f"not found: {', '.join(missing)}; the log tells where it was looked for")
    version = stage.run(kit.ventris, "--version", most=60).output
    kit.measured["machine"] += version
    stage.run(kit.mpirun, "--version", most=60)
    stage.run(kit.tests, "--gtest_filter=none", most=60)
    return version.splitlines()[0]


def passed_tests(finished):
    found = re.search(r"\[  PASSED  \] (\d+) test", finished.output)
    if not found or found[1] == "0":
        raise table.Failed("no test ran")
    return f"{found[1]} tests"


def run_tests(kit, stage):
    return passed_tests(stage.run(kit.tests, f"--gtest_filter={kit.sizes.test_filter}", "--gtest_brief=1"))


def run_selftest(kit, stage):
    finished = stage.run(kit.ventris, "selftest", "--device", kit.sizes.device, *kit.sizes.selftest)
    return table.last_words(finished.output)


def sanitize(tool, tests):
    """A stage that runs tests under a tool of compute-sanitizer."""
    def check(kit, stage):
        words = [find_tool("compute-sanitizer"), "--tool", tool, "--target-processes", "all", "--error-exitcode", ERROR_OF_SANITIZER]
        selected = tests if kit.sizes.test_filter == "*" else kit.sizes.test_filter
        finished = stage.attempt(*words, kit.tests, f"--gtest_filter={selected}", "--gtest_brief=1")
        if finished.code == ERROR_OF_SANITIZER:
            raise table.Failed(f"{tool} found: {table.last_words(finished.output)}")
        if finished.code != 0:
            raise table.Failed(finished.reason)
        return passed_tests(finished)

    return check


def compare_with_cpu(kit, stage):
    """The program on the device against the program on the CPU, tests/cli/device_test.py."""
    lacking = stage.attempt(sys.executable, "-c", "import numpy", most=60)
    if lacking.code != 0:
        raise table.Failed(f"{sys.executable} has no numpy: {table.last_words(lacking.errors)}")
    script = os.path.join(kit.source, "tests", "cli", "device_test.py")
    finished = stage.run(sys.executable, "-B", script, *kit.sizes.device_tests, VENTRIS_BINARY=kit.ventris, VENTRIS_EMULATED=kit.ventris,
                         VENTRIS_SOURCE_DIR=kit.source, VENTRIS_MPIEXEC=kit.mpirun, VENTRIS_TUNE_GEMM="0")
    words = table.last_words(finished.errors)
    found = re.search(r"Ran (\d+) test", finished.errors)
    if not found or found[1] == "0":
        reason = re.search(r"skipped ['\"](.*)['\"]", finished.errors)
        raise table.Failed(f"no test ran: {reason[1] if reason else words}")
    return f"{found[1]} tests, {words}"


def compare_graph(kit, stage):
    """Steps replayed as a graph against single launches: equal digests."""
    for precision in kit.sizes.precisions:
        folders = {"graph": stage.train(f"graph-{precision}", precision=precision, steps=kit.sizes.few_steps),
                   "--no-cuda-graph": stage.train(f"launches-{precision}", "--no-cuda-graph", precision=precision, steps=kit.sizes.few_steps)}
        kits.require_equal([f"{name} in {precision}" for name in folders], [kits.digests(folder) for folder in folders.values()])
    return f"equal digests of {kit.sizes.few_steps} steps, {' and '.join(kit.sizes.precisions)}"


def newest_step(folder):
    names = glob.glob(os.path.join(folder, "checkpoint-*.h5"))
    return max((int(re.findall(r"\d+", os.path.basename(name))[0]) for name in names), default=0)


def kill_and_resume(kit, stage):
    """A run that is killed and resumed against one that is not: equal digests of all steps."""
    sizes = kit.sizes
    whole = stage.train("whole", steps=sizes.many_steps)
    words = stage.training("killed", steps=sizes.many_steps, save_every=sizes.save_every)
    process = kits.start(words, kit.environment(), stage.log)
    try:
        while newest_step(stage.path("killed")) < 2 * sizes.save_every and process.poll() is None:
            stage.left()
            time.sleep(0.005)
        if process.poll() is not None:
            raise table.Failed(f"the run ended before it was killed, exit code {process.returncode}")
    finally:
        kits.stop(process)
    before = newest_step(stage.path("killed"))
    if before >= sizes.many_steps:
        raise table.Failed("the run was done before it was killed")
    stage.run(*words)
    kits.require_equal(("the uninterrupted run", "the killed and resumed run"), [kits.digests(whole), kits.digests(stage.path("killed"))])
    return f"killed after the checkpoint of step {before}, equal digests of {sizes.many_steps} steps"


def ranks_on_one_device(kit, stage):
    """NCCL between ranks that share the device: equal digests on any number of ranks, and with and without a graph."""
    rows = kit.measured["ranks"] = []
    common = ["--reduction", "reproducible"]
    try:
        one = kits.digests(stage.train("one", *common, steps=kit.sizes.few_steps))
        rows.append({"ranks": 1, "reduction": "reproducible", "graph": True, **last_of(one)})
        for ranks in kit.sizes.ranks:
            for reduction, graph in (("reproducible", True), ("reproducible", False), ("fast", True), ("fast", False)):
                name = f"{ranks}-{reduction}-{'graph' if graph else 'launches'}"
                options = ["--reduction", reduction, *([] if graph else ["--no-cuda-graph"])]
                found = kits.digests(train_on_ranks(kit, stage, name, ranks, options))
                rows.append({"ranks": ranks, "reduction": reduction, "graph": graph, **last_of(found)})
                if reduction == "reproducible":
                    kits.require_equal(("1 rank", name), (one, found))
                elif graph:
                    fast = found
                else:
                    kits.require_equal((f"{ranks} ranks, fast, with a graph", "without"), (fast, found))
    except table.Failed as error:
        refused = NCCL_REFUSES.search(stage.messages)
        raise table.Failed(f"NCCL refuses: {refused[0]}" if refused else str(error)) from error
    return f"equal digests of 1, {' and '.join(map(str, kit.sizes.ranks))} ranks"


def last_of(digests):
    step = max(digests)
    return {"step": step, "digest": digests[step]}


def train_on_ranks(kit, stage, name, ranks, options):
    """A run of ranks each of which is on a host of its own to NCCL, which else refuses to share a device. Returns its folder."""
    words = stage.training(name, *options, steps=kit.sizes.few_steps)
    launcher = [kit.mpirun, "--oversubscribe", "--bind-to", "none"]
    for rank in range(ranks):
        launcher += [*([":"] if rank else []), "-np", 1, "-x", f"NCCL_HOSTID=ventris-{rank}", *words]
    stage.run(*launcher, NCCL_SOCKET_IFNAME="lo", NCCL_DEBUG="WARN")
    return stage.path(name)


def train_multi30k(kit, stage):
    """launch/recipes/multi30k.sh to the score that the CPU reached."""
    if not os.path.isdir(kit.multi30k):
        raise table.Failed("the archive has no text of Multi30k; pack.sh --multi30k FOLDER adds it")
    # Without a device supervise, which the recipe calls, would try again and again.
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
