"""What the scripts that measure training have in common: runs of ventris and of peers, and tables in Markdown."""
import json
import os
import shutil
import subprocess
import sys
import tempfile


def last_words(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def run_json(command, name, timeout=None):
    """The object that is the last line of the command's output; None, and a word why, where it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        print(f"{name}: not done after {timeout:.0f} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"{name}: {last_words(done.stderr)}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def train_ventris(launcher, ventris, corpus, preset, precision, batch_tokens, seconds, warmup_seconds, extra, timeout=None):
    """A run of `ventris train`, without its first steps. Returns rates a second, and the object of --json as "result"."""
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    command = [*launcher, ventris, "train", "--corpus", corpus, "--model-dir", folder, "--preset", preset, "--precision", precision,
               "--batch-target-tokens", str(batch_tokens), "--batch-source-tokens", str(batch_tokens), "--max-minutes",
               str((seconds + warmup_seconds) / 60), "--max-steps", "1000000", "--valid-every", "0", "--save-every", "0", "--json", *extra]
    try:
        result = run_json(command, f"ventris {preset}", timeout)
        if result is None:
            return None
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    finally:
        shutil.rmtree(folder)
    counted = [line for line in lines if line["elapsed_seconds"] - lines[0]["elapsed_seconds"] >= warmup_seconds]
    if len(counted) < 2:
        print(f"ventris {preset}: fewer than two reports after {warmup_seconds} s; measure for longer", file=sys.stderr)
        return None
    seconds = counted[-1]["elapsed_seconds"] - counted[0]["elapsed_seconds"]
    steps = counted[-1]["step"] - counted[0]["step"]
    tokens = counted[-1]["target_tokens"] - counted[0]["target_tokens"]
    flops_per_token = result["model_flops_per_second"] / result["target_tokens_per_second"]
    return {"rate": tokens / seconds, "ms": 1000 * seconds / steps, "flops": tokens / seconds * flops_per_token,
            "tokens_per_update": round(tokens / steps), "result": result}


def peer(python, script, arguments, name, timeout=None):
    """A script of this folder, run by another Python."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
    return run_json([python, path, *map(str, arguments)], name, timeout)


def markdown(header, rows):
    """Cells of a table to text."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def write(text, path):
    print(text)
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
