#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of translation on the CPU against CTranslate2 with the same weights, machine and run, as a table in Markdown.

    python3 tests/bench/decode_bench.py --ventris build/release/ventris --model weights.h5 --peer-python PYTHON \
        --source test_2016_flickr.lc.norm.tok.en.gz --sentences 1000 --output table.md

PYTHON needs ctranslate2 and sentencepiece; its model folder comes from `ventris export`. For each beam size, number of sentences
translated together and number of threads all programs run alternately, `--rounds` times; the table has medians, for ratios the medians over
the rounds. Both search without a length penalty; lines that differ from those of the peer in the precision of `--base` are counted. "By CPU
time" is the same ratio of the CPU time of the process, which other programs on the machine disturb less. `--isa` limits both programs to the
same instructions (the peer's libraries need several variables for that). Start and loading of the model are not timed; ours tokenizes and
detokenizes within the measured time, the input and output of the peer are tokens. Peak memory is the resident set of the whole process: for
the peer that includes Python, whose share (packages imported, no model) is shown in a separate line.
"""
import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import table


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_peer(arguments):
    """In the peer's Python: prints one object, and writes the translations."""
    import ctranslate2
    import sentencepiece
    own = peak_mib()
    processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(arguments.folder, "sentencepiece.model"))
    with open(arguments.source, encoding="utf-8") as file:
        sources = [processor.encode(line.rstrip("\n"), out_type=str) for line in file]
    translator = ctranslate2.Translator(arguments.folder, compute_type=arguments.compute_type, inter_threads=1,
                                        intra_threads=arguments.threads)
    options = {"beam_size": arguments.beam, "length_penalty": 0, "max_batch_size": arguments.batch,
               "max_decoding_length": 256, "disable_unk": True}
    translator.translate_batch(sources[:2], **options)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    results = translator.translate_batch(sources, **options)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    hypotheses = [result.hypotheses[0] for result in results]
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.writelines(processor.decode(pieces) + "\n" for pieces in hypotheses)
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "tokens": sum(map(len, hypotheses)), "peak_mib": peak_mib(), "own_mib": own,
                      "version": ctranslate2.__version__}))


# Variables that limit the peer's own kernels and its libraries to the instructions of --isa.
PEER_LIMITS = {
    "auto": {},
    "avx2": {"CT2_FORCE_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "avx512": {"CT2_FORCE_CPU_ISA": "AVX512"},
    "avx512-bf16": {"CT2_FORCE_CPU_ISA": "AVX512"},
}


def ventris(arguments, precision, beam, batch, threads, source, output):
    command = [arguments.ventris, "translate", "--model", arguments.model, "--beam-size", str(beam), "--length-penalty", "0",
               "--batch-sentences", str(batch), "--batch-rows", str(max(1024, 32 * batch)), "--threads", str(threads), "--device", "cpu",
               "--precision", precision, "--max-extra-length", "256", "--max-length", "256", "--block-lines", "10000000", "--statistics"]
    environment = {**os.environ, "VENTRIS_ISA": arguments.isa}
    with open(source, "rb") as stdin, open(output, "wb") as stdout:
        done = subprocess.run(command, check=True, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stderr.strip().splitlines()[-1])


def peer(arguments, compute_type, beam, batch, threads, source, output, folder):
    command = [arguments.peer_python, os.path.abspath(__file__), "--as-peer", "--folder", folder,
               "--compute-type", compute_type, "--beam", str(beam), "--batch", str(batch), "--threads", str(threads),
               "--source", source, "--output", output]
    # Its threads wait for each other several times as fast so.
    waiting = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "active")}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **waiting, **PEER_LIMITS[arguments.isa]})
    return json.loads(done.stdout.strip().splitlines()[-1])


def different_lines(a, b):
    with open(a, encoding="utf-8") as first, open(b, encoding="utf-8") as second:
        return sum(x != y for x, y in zip(first, second, strict=True))


def measure(arguments, folder):
    source = os.path.join(folder, "source")
    opened = gzip.open if arguments.source.endswith(".gz") else open
    with opened(arguments.source, "rt", encoding="utf-8") as file:
        lines = [line for line in file if line.strip()][:arguments.sentences]
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(lines)
    peer_folder = os.path.join(folder, "peer")
    subprocess.run([arguments.ventris, "export", "--format", "ctranslate2", "--model", arguments.model, "--output", peer_folder],
                   check=True, stdout=subprocess.DEVNULL)
    systems = [("ventris", precision) for precision in arguments.precisions]
    systems += [("CTranslate2", compute_type) for compute_type in arguments.peer_types]
    base = ("CTranslate2", arguments.base)
    header = ["beam", "sentences at a time", "threads", "program", "precision", "sentences/s", "tokens/s", f"of CTranslate2 {arguments.base}",
              "by CPU time", "peak MiB", f"of CTranslate2 {arguments.base}", f"lines that differ from CTranslate2 {arguments.base}"]
    rows = []
    own = 0
    for beam in arguments.beams:
        for batch in arguments.batches:
            for threads in arguments.threads:
                runs = {system: [] for system in systems}
                outputs = {system: os.path.join(folder, "-".join(system)) for system in systems}
                for _ in range(arguments.rounds):
                    for system in systems:
                        name, precision = system
                        if name == "ventris":
                            result = ventris(arguments, precision, beam, batch, threads, source, outputs[system])
                        else:
                            result = peer(arguments, precision, beam, batch, threads, source, outputs[system], peer_folder)
                            own = max(own, result["own_mib"])
                        runs[system].append(result)

                def median(system, field):
                    return statistics.median(run[field] for run in runs[system])

                def ratio(system, field):
                    return statistics.median(theirs[field] / ours[field] for theirs, ours in zip(runs[base], runs[system], strict=True))

                for system in systems:
                    seconds, tokens, memory = (median(system, field) for field in ("seconds", "tokens", "peak_mib"))
                    name = system[0] if system[0] == "ventris" else f"{system[0]} {runs[system][0]['version']}"
                    unlike = different_lines(outputs[system], outputs[base])
                    rows.append([beam, batch, threads, name, system[1], f"{len(lines) / seconds:,.1f}", f"{tokens / seconds:,.0f}",
                                 f"{ratio(system, 'seconds'):.2f}", f"{ratio(system, 'cpu_seconds'):.2f}", f"{memory:,.0f}",
                                 f"{memory / median(base, 'peak_mib'):.2f}", f"{unlike} of {len(lines)}"])
                    print(rows[-1], file=sys.stderr, flush=True)
    rows.append(["", "", "", "Python with the peer's packages, without a model", *[""] * 5, f"{own:,.0f}", "", ""])
    return table.markdown(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="weights file")
    parser.add_argument("--source", help="text, one sentence a line; may be gzipped")
    parser.add_argument("--ventris", default="build/release/ventris")
    parser.add_argument("--peer-python", default=sys.executable, help="python that has ctranslate2")
    parser.add_argument("--peer-types", nargs="+", default=["float32", "int8"], help="its compute types, including --base")
    parser.add_argument("--precisions", nargs="+", default=["f32", "bf16", "int8"], help="ours")
    parser.add_argument("--base", default="float32", help="the compute type of the peer to which ratios refer")
    parser.add_argument("--isa", default="auto", choices=list(PEER_LIMITS), help="instruction set that both may use")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", help="file for the table")
    inner = parser.add_argument_group("run the part for the peer's python")
    inner.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    for name, kind in (("folder", str), ("compute-type", str), ("beam", int), ("batch", int)):
        inner.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_peer:
        arguments.threads = arguments.threads[0]
        return run_peer(arguments)
    with tempfile.TemporaryDirectory(prefix="ventris-bench-") as folder:
        table.write(measure(arguments, folder), arguments.output)
    return None


if __name__ == "__main__":
    main()
