#!/usr/bin/env python3
"""Speed of translation on the CPU against CTranslate2 with the same weights, machine and run, as a table in Markdown.

    python3 tests/bench/decode_bench.py --ventris build/release/ventris --model weights.h5 --peer-python PYTHON \
        --source test_2016_flickr.lc.norm.tok.en.gz --sentences 1000 --output table.md

PYTHON needs ctranslate2, h5py, numpy and sentencepiece. For each width of the beam, number of sentences translated together and number of
threads all programs run in turn, `--rounds` times; the table has medians. Both search without a length penalty, and the lines in which the
peer's f32 differs from ours are counted. "By CPU time" is the same ratio by the time that the
threads of the process had a core, which other programs on the machine disturb less. Neither reading the model nor starting counts; ours tokenizes and detokenizes within the measured
time, the peer gets and gives pieces. Peak memory is the resident set of the whole process: for the peer that includes Python, whose part
(the packages imported, no model) is shown in a line of its own.
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


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sinusoids(positions, d_model):
    """Sine on even and cosine on odd channels, as the model has them (section 3.5 of the paper)."""
    import numpy
    angle = numpy.arange(positions)[:, None] / 10000.0 ** (numpy.arange(0, d_model, 2) / d_model)
    return numpy.stack([numpy.sin(angle), numpy.cos(angle)], axis=-1).reshape(positions, -1)[:, :d_model]


def pieces_of(file):
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_proto=file["tokenizer"][()].tobytes())
    return processor, [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def convert(model, folder):
    """The peer's model folder from a weights file."""
    import ctranslate2
    import h5py
    import numpy
    file = h5py.File(model)
    config = json.loads(file.attrs["config"])
    pre_norm = config["pre_norm"]
    spec = ctranslate2.specs.TransformerSpec.from_config((config["encoder_layers"], config["decoder_layers"]),
                                                         config["heads"], pre_norm=pre_norm)

    def value(name):
        return file["model/" + name][()].astype(numpy.float32)

    def linear(to, *names):
        to.weight = numpy.concatenate([value(f"{name}/weight").T for name in names])
        to.bias = numpy.concatenate([value(f"{name}/bias") for name in names])

    def norm(to, name):
        to.gamma, to.beta = value(f"{name}/gamma"), value(f"{name}/beta")

    def positions(to, side):
        to.encodings = (value(f"{side}_positions") if config["learned_positions"] else
                        sinusoids(config["max_positions"], config["d_model"])).astype(numpy.float32)

    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = stack.embeddings[0] if side == "encoder" else stack.embeddings
        embeddings.weight = value("embedding")
        embeddings.multiply_by_sqrt_depth = True
        positions(stack.position_encodings, "source" if side == "encoder" else "target")
        if pre_norm:
            norm(stack.layer_norm, f"{side}/norm")
        for i, layer in enumerate(stack.layer):
            prefix = f"{side}/layers/{i}"
            attention = f"{prefix}/self_attention"
            linear(layer.self_attention.linear[0], *(f"{attention}/{part}" for part in ("query", "key", "value")))
            linear(layer.self_attention.linear[1], f"{attention}/output")
            norm(layer.self_attention.layer_norm, f"{attention}/norm")
            if side == "decoder":
                attention = f"{prefix}/cross_attention"
                linear(layer.attention.linear[0], f"{attention}/query")
                linear(layer.attention.linear[1], f"{attention}/key", f"{attention}/value")
                linear(layer.attention.linear[2], f"{attention}/output")
                norm(layer.attention.layer_norm, f"{attention}/norm")
            linear(layer.ffn.linear_0, f"{prefix}/feed_forward/inner")
            linear(layer.ffn.linear_1, f"{prefix}/feed_forward/outer")
            norm(layer.ffn.layer_norm, f"{prefix}/feed_forward/norm")
    spec.decoder.projection.weight = value("embedding")
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config["layer_norm_epsilon"]
    vocabulary = pieces_of(file)[1]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.validate()
    spec.optimize()
    os.makedirs(folder)
    spec.save(folder)


def run_peer(arguments):
    """In the peer's Python: prints one object, and writes the translations."""
    import ctranslate2
    import h5py
    own = peak_mib()
    processor, _ = pieces_of(h5py.File(arguments.model))
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
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "words": sum(map(len, hypotheses)), "peak_mib": peak_mib(), "own_mib": own,
                      "version": ctranslate2.__version__}))


def ventris(arguments, precision, beam, batch, threads, source, output):
    command = [arguments.ventris, "translate", "--model", arguments.model, "--beam-size", str(beam), "--length-penalty", "0",
               "--batch-sentences", str(batch), "--batch-rows", "8192", "--threads", str(threads), "--device", "cpu",
               "--precision", precision, "--block-lines", "10000000", "--statistics"]
    with open(source, "rb") as stdin, open(output, "wb") as stdout:
        done = subprocess.run(command, check=True, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stderr.strip().splitlines()[-1])


def peer(arguments, compute_type, beam, batch, threads, source, output, folder):
    command = [arguments.peer_python, os.path.abspath(__file__), "--as-peer", "--model", arguments.model, "--folder", folder,
               "--compute-type", compute_type, "--beam", str(beam), "--batch", str(batch), "--threads", str(threads),
               "--source", source, "--output", output]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
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
    subprocess.run([arguments.peer_python, os.path.abspath(__file__), "--convert", "--model", arguments.model, "--folder",
                    peer_folder], check=True)
    systems = [("ventris", precision) for precision in ("f32", "bf16")]
    systems += [("CTranslate2", compute_type) for compute_type in arguments.peer_types]
    header = ("| beam | sentences at a time | threads | program | precision | sentences/s | words/s | of CTranslate2 f32 | by CPU time | "
              "peak MiB | of CTranslate2 f32 | lines unlike CTranslate2 f32 |")
    rows = [header, "|" + "---|" * 12]
    print("\n".join(rows), flush=True)
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

                base = ("CTranslate2", "float32")
                for system in systems:
                    seconds, words, memory = (median(system, field) for field in ("seconds", "words", "peak_mib"))
                    name = system[0] if system[0] == "ventris" else f"{system[0]} {runs[system][0]['version']}"
                    unlike = different_lines(outputs[system], outputs[base])
                    rows.append(f"| {beam} | {batch} | {threads} | {name} | {system[1]} | {len(lines) / seconds:,.1f} | "
                                f"{words / seconds:,.0f} | {median(base, 'seconds') / seconds:.2f} | "
                                f"{median(base, 'cpu_seconds') / median(system, 'cpu_seconds'):.2f} | {memory:,.0f} | "
                                f"{memory / median(base, 'peak_mib'):.2f} | {unlike} of {len(lines)} |")
                    print(rows[-1], flush=True)
    rows.append(f"| | | | Python with the peer's packages, no model | | | | | | {own:,.0f} | | |")
    print(rows[-1], flush=True)
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="weights file")
    parser.add_argument("--source", help="text, one sentence a line; may be gzipped")
    parser.add_argument("--ventris", default="build/release/ventris")
    parser.add_argument("--peer-python", default=sys.executable, help="python that has ctranslate2 and h5py")
    parser.add_argument("--peer-types", nargs="+", default=["float32", "int8"], help="its compute types; float32 among them")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", help="file for the table")
    inner = parser.add_argument_group("the part that runs in the peer's python")
    inner.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    inner.add_argument("--convert", action="store_true", help=argparse.SUPPRESS)
    for name, kind in (("folder", str), ("compute-type", str), ("beam", int), ("batch", int)):
        inner.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.convert:
        return convert(arguments.model, arguments.folder)
    if arguments.as_peer:
        arguments.threads = arguments.threads[0]
        return run_peer(arguments)
    with tempfile.TemporaryDirectory(prefix="ventris-bench-") as folder:
        table = measure(arguments, folder)
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(table)
    return None


if __name__ == "__main__":
    main()
