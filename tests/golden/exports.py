#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves exported models against the programs they are for: CTranslate2 and Hugging Face's transformers. Needs the
Python packages ctranslate2, transformers, torch, sentencepiece, safetensors, h5py and numpy.

    exports.py check --binary build/release/ventris --model weights.h5 --source test.en [--sentences 1000]
    exports.py golden --binary build/release/ventris

`check` exports the model to every format that can express it, lets each program translate the sentences greedily
and with beam 4 and no length penalty, and counts the lines that equal those of `ventris translate`. It compares
logits and log-probabilities of the probes that travel with the model. So it does in each precision of `export`,
where all compute in f32; then CTranslate2 computes in 8-bit integers, with ours and with its own. `golden` trains a tiny
model, lets the programs translate with it, and writes its weights and what they gave to exports.json, which the
tests read.
"""

import argparse
import base64
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exports.json")
BEAMS = (1, 4)
# Tokens of a translation, the same in every program, for lines that would never end.
MAX_LENGTH = 200
TINY_CONFIG = {
    "attention_dropout": 0.0,
    "d_ff": 32,
    "d_model": 16,
    "decoder_layers": 1,
    "dropout": 0.0,
    "encoder_layers": 1,
    "heads": 2,
    "label_smoothing": 0.1,
    "layer_norm_epsilon": 1e-05,
    "learned_positions": False,
    "max_positions": 64,
    "pre_norm": False,
    "zero_word": 1,
}
# What a model as Marian computes it has besides; where the format of Marian tells nothing, our defaults.
MARIAN_CONFIG = {
    "attention_dropout": 0.1,
    "dropout": 0.1,
    "layer_norm_epsilon": 1e-06,
    "marian_positions": True,
    "max_positions": 1024,
    "zero_start": True,
    "zero_word": -1,
}


def tiny_lines(count, first=0):
    """Lines of one to six words of letters."""
    lines = []
    for number in range(first, first + count):
        digest = hashlib.sha256(str(number).encode()).digest()
        lines.append(" ".join("abcdefghij"[byte % 10] for byte in digest[1 : 2 + digest[0] % 6]))
    return lines


TINY_LINES = tiny_lines(40, first=100000)


def tensor_shapes(config, words):
    """The parameters of a model by name, in the order of the program."""
    d, inner = config["d_model"], config["d_ff"]
    tie = config.get("tie", "all")
    source_words = config.get("source_vocab_size", words)
    shapes = {"embedding": (words, d)} if tie == "all" else {"source_embedding": (source_words, d)}
    if config["learned_positions"]:
        shapes["source_positions"] = shapes["target_positions"] = (config["max_positions"], d)

    def linear(name, rows, cols):
        shapes[name + "/weight"] = (rows, cols)
        shapes[name + "/bias"] = (cols,)

    def norm(name):
        shapes[name + "/gamma"] = shapes[name + "/beta"] = (d,)

    for stack, parts in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        if stack == "decoder" and tie != "all":
            shapes["target_embedding"] = (words, d)
        for layer in range(config[stack + "_layers"]):
            prefix = f"{stack}/layers/{layer}"
            for part in parts:
                for name in ("query", "key", "value", "output"):
                    linear(f"{prefix}/{part}_attention/{name}", d, d)
                norm(f"{prefix}/{part}_attention/norm")
            linear(f"{prefix}/feed_forward/inner", d, inner)
            linear(f"{prefix}/feed_forward/outer", inner, d)
            norm(f"{prefix}/feed_forward/norm")
        if config["pre_norm"]:
            norm(f"{stack}/norm")
    if tie == "none":
        shapes["output/weight"] = (words, d)
    if config.get("output_bias"):
        shapes["output/bias"] = (words,)
    return shapes


def formula_values(name, shape):
    """Numbers that depend on the name of the parameter alone, for a model that nobody trained."""
    size = math.prod(shape)

    def number(element):  # in (-1, 1)
        digest = hashlib.sha256(f"{name} {element}".encode()).digest()
        return struct.unpack("<i", digest[:4])[0] / 2**31

    offset, scale = (1.0, 0.5) if name.endswith("/gamma") else (0.0, 0.8 if len(shape) == 2 else 0.3)
    return [offset + scale * number(i) for i in range(size)]


def rounded(values):
    """Values as golden files hold them: whole numbers from -127 to 127 times a power of two."""
    exponent = math.ceil(math.log2(max(*map(abs, values), 1e-6) / 127))
    numbers = struct.pack(f"{len(values)}b", *(round(value / 2.0**exponent) for value in values))
    return {"exponent": exponent, "numbers": base64.b64encode(numbers).decode()}


def values_of(held):
    numbers = base64.b64decode(held["numbers"])
    return [2.0 ** held["exponent"] * number for number in struct.unpack(f"{len(numbers)}b", numbers)]


def write_tiny_model(path, golden, **changes):
    """A safetensors file as ours, without a digest: the trained model of the golden file, or, with changes of its
    configuration, one made of a formula. With source_vocab_size in them it has the second tokenizer of the file."""
    config = {**TINY_CONFIG, **changes, "vocab_size": golden["words"]}
    begin = config["zero_word"]
    if begin < 0:
        del config["zero_word"]
    tokenizers = {"tokenizer": base64.b64decode(golden["tokenizer"])}
    if "source_vocab_size" in config:
        tokenizers["source_tokenizer"] = base64.b64decode(golden["source_tokenizer"])
    header = {"__metadata__": {"format": "ventris safetensors 1", "config": json.dumps(config)}}
    data = b""
    for name, shape in tensor_shapes(config, golden["words"]).items():
        values = formula_values(name, shape) if changes else values_of(golden["weights"][name])
        if name in ("embedding", "target_embedding") and begin >= 0:
            values[begin * shape[1] : (begin + 1) * shape[1]] = [0.0] * shape[1]
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    for name, tokenizer in tokenizers.items():
        end = len(data) + len(tokenizer)
        header[name] = {"dtype": "U8", "shape": [len(tokenizer)], "data_offsets": [len(data), end]}
        data += tokenizer
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def run(binary, *arguments, stdin=""):
    result = subprocess.run(
        [binary, *map(str, arguments)], input=stdin.encode(), capture_output=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"{arguments}: {result.stderr.decode()}")
    return result.stdout.decode()


def translate(binary, model, lines, beam):
    """Our own translations."""
    text = run(
        binary,
        "translate",
        "--model",
        model,
        "--beam-size",
        beam,
        "--length-penalty",
        0,
        "--max-length",
        MAX_LENGTH,
        "--max-extra-length",
        65535,
        stdin="".join(line + "\n" for line in lines),
    )
    return text.split("\n")[:-1]


def read_probes(folder):
    with open(os.path.join(folder, "probe.json"), encoding="utf-8") as file:
        return json.load(file)["probes"]


class CTranslate2:
    """A folder of CTranslate2."""

    def __init__(self, folder, compute_type="float32"):
        import ctranslate2
        import sentencepiece

        self.name = f"CTranslate2 {ctranslate2.__version__}"
        self.translator = ctranslate2.Translator(folder, device="cpu", compute_type=compute_type, intra_threads=1)
        shared = os.path.exists(os.path.join(folder, "sentencepiece.model"))
        self.source_tokenizer, self.tokenizer = (
            sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, name))
            for name in (("sentencepiece.model",) * 2 if shared else ("source.spm", "target.spm"))
        )

    def translate(self, lines, beam):
        results = self.translator.translate_batch(
            [self.source_tokenizer.encode(line, out_type=str) for line in lines],
            beam_size=beam,
            length_penalty=0,
            disable_unk=True,
            min_decoding_length=0,
            suppress_sequences=[[self.tokenizer.id_to_piece(self.tokenizer.bos_id())]],
            max_decoding_length=MAX_LENGTH,
            max_batch_size=32,
        )
        return [self.tokenizer.decode(result.hypotheses[0]) for result in results]

    def difference(self, probes):
        """The greatest difference of log-probabilities of the probes' target words."""
        scores = self.translator.score_batch(
            [[self.source_tokenizer.id_to_piece(word) for word in probe["source"]] for probe in probes],
            [[self.tokenizer.id_to_piece(word) for word in probe["target"]] for probe in probes],
        )
        return max(
            abs(a - b)
            for score, probe in zip(scores, probes)
            for a, b in zip(score.log_probs, probe["log_probabilities"], strict=True)
        )


class Transformers:
    """A folder of MarianMTModel."""

    def __init__(self, folder):
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        torch.set_num_threads(1)
        self.torch = torch
        self.name = f"transformers {transformers.__version__}"
        self.model = transformers.MarianMTModel.from_pretrained(folder, torch_dtype=torch.float32)
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.model.eval()

    def translate(self, lines, beam):
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        results = [None] * len(lines)
        unknown, begin = self.tokenizer.convert_tokens_to_ids(["<unk>", "<s>"])
        banned = sorted({unknown, self.model.config.decoder_start_token_id, self.model.config.pad_token_id, begin})
        for begin in range(0, len(lines), 32):
            chosen = order[begin : begin + 32]
            inputs = self.tokenizer([lines[i] for i in chosen], return_tensors="pt", padding=True)
            with self.torch.no_grad():
                outputs = self.model.generate(
                    **inputs,
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=0.0,
                    suppress_tokens=banned,
                    max_new_tokens=MAX_LENGTH + 1,  # with the end mark, which it forces
                )
            for i, output in zip(chosen, outputs):
                results[i] = self.tokenizer.decode(output, skip_special_tokens=True)
        return results

    def difference(self, probes):
        """The greatest difference of logits of the probes' best words, and of log-probabilities."""
        config = self.model.config
        greatest = 0.0
        for probe in probes:
            source = self.torch.tensor([probe["source"] + [config.eos_token_id]])
            target = self.torch.tensor([[config.decoder_start_token_id] + probe["target"]])
            with self.torch.no_grad():
                logits = self.model(input_ids=source, decoder_input_ids=target).logits[0]
            logits = logits.double()
            labels = self.torch.tensor(probe["target"] + [config.eos_token_id])
            log_probabilities = logits.log_softmax(-1).gather(1, labels[:, None])[:, 0]
            expected = self.torch.tensor(probe["log_probabilities"]).double()
            greatest = max(greatest, (log_probabilities - expected).abs().max().item())
            rows = len(labels)
            best = self.torch.tensor(probe["top_words"]).view(rows, -1)
            expected = self.torch.tensor(probe["top_logits"]).double().view(rows, -1)
            greatest = max(greatest, (logits.gather(1, best) - expected).abs().max().item())
            greatest = max(greatest, (logits.max(-1).values - expected[:, 0]).abs().max().item())
        return greatest


def export(binary, model, output_format, output, precision="f32"):
    """Exports, or prints why the format cannot express the model and returns False."""
    command = [binary, "export", "--model", model, "--format", output_format, "--output", output]
    command += ["--precision", precision]
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode not in (0, 78):
        raise RuntimeError(result.stderr.decode())
    if result.returncode == 78:
        print(f"{output_format}: {result.stderr.decode().strip()}")
    return result.returncode == 0


def peers_of(binary, model, folder, precision="f32"):
    """Every program with the model, one at a time: (format, program, probes). They compute in f32."""
    output = os.path.join(folder, "ctranslate2-" + precision)
    export(binary, model, "ctranslate2", output, precision)
    yield "ctranslate2", CTranslate2(output), read_probes(output)

    output = os.path.join(folder, "huggingface-" + precision)
    if precision != "int8" and export(binary, model, "huggingface", output, precision):
        yield "huggingface", Transformers(output), read_probes(output)


def check_safetensors(binary, model, folder):
    """Every tensor of the safetensors file equals that of the HDF5 file, bit for bit."""
    import h5py
    import numpy
    from safetensors.numpy import load_file

    path = os.path.join(folder, "model.safetensors")
    weights = os.path.join(folder, "weights.h5")
    run(binary, "export", "--model", model, "--format", "safetensors", "--output", path)
    run(binary, "export", "--model", model, "--output", weights)
    tensors = load_file(path)
    with h5py.File(weights) as file:
        for name, tensor in tensors.items():
            expected = file[name if name.endswith("tokenizer") else "model/" + name][()]
            if not numpy.array_equal(tensor.view(numpy.uint8), expected.view(numpy.uint8)):
                raise RuntimeError(f"{path}: {name} differs from {weights}")
    print(f"safetensors: {len(tensors)} tensors equal those of the HDF5 file, bit for bit")


def check_precision(binary, model, lines, folder, precision):
    """Compares the programs with ours where the files have that precision. All compute in f32."""
    agree = True
    weights = os.path.join(folder, precision + ".h5")
    export(binary, model, "hdf5", weights, precision)
    ours = {beam: translate(binary, weights, lines, beam) for beam in BEAMS if lines}
    for output_format, peer, probes in peers_of(binary, model, folder, precision):
        name = f"{output_format}: {precision}: {peer.name}"
        difference = peer.difference(probes)
        print(f"{name}: probes differ by at most {difference:.2g}")
        agree = agree and difference <= 1e-4
        for beam, expected in ours.items():
            theirs = peer.translate(lines, beam)
            differing = [i for i, (a, b) in enumerate(zip(expected, theirs, strict=True)) if a != b]
            equal = len(lines) - len(differing)
            print(f"{name}: beam {beam}: {equal} of {len(lines)} lines equal")
            for i in differing[:3]:
                print(f"  line {i + 1}: ours {expected[i]!r}, theirs {theirs[i]!r}")
            agree = agree and not differing
            sys.stdout.flush()
    return agree


def check_int8_of_ctranslate2(lines, folder):
    """Compares translations that CTranslate2 computes in int8 from our int8 with those from its own, and prints how
    many are equal. Returns whether 9 of 10 are."""
    ours, theirs = (CTranslate2(os.path.join(folder, "ctranslate2-" + name), "int8") for name in ("int8", "f32"))
    agree = True
    for beam in BEAMS if lines else ():
        pairs = zip(ours.translate(lines, beam), theirs.translate(lines, beam), strict=True)
        equal = sum(a == b for a, b in pairs)
        print(f"ctranslate2: in int8, beam {beam}: {equal} of {len(lines)} lines equal with our integers and its own")
        agree = agree and equal >= 0.9 * len(lines)
    return agree


def check(binary, model, lines):
    """Prints one line for each program, precision and beam size; returns whether all agree. Without lines only the
    probes are compared."""
    with tempfile.TemporaryDirectory(prefix="ventris-exports-") as folder:
        check_safetensors(binary, model, folder)
        agree = [check_precision(binary, model, lines, folder, precision) for precision in ("f32", "bf16", "int8")]
        agree.append(check_int8_of_ctranslate2(lines, folder))
        return all(agree)


def train_tiny_tokenizer(path, words=14):
    """A SentencePiece model of the letters, and of digits to fill it, without normalisation."""
    import sentencepiece

    with open(path, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*tiny_lines(200), "0123456789"[: words - 14]]),
            model_writer=file,
            model_type="char",
            vocab_size=words,
            normalization_rule_name="identity",
            unk_id=0,
            bos_id=1,
            eos_id=2,
            minloglevel=2,
        )


def train_tiny_model(binary, folder):
    """Trains a model that gives the words in the opposite order; returns its parameters, rounded."""
    from safetensors.numpy import load_file

    def path(name):
        return os.path.join(folder, name)

    train_tiny_tokenizer(path("tokenizer.model"))
    for name, count, first in (("train", 4000, 0), ("valid", 20, 50000)):
        lines = tiny_lines(count, first)
        with open(path(name + ".source"), "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        with open(path(name + ".target"), "w", encoding="utf-8") as file:
            file.write("".join(" ".join(reversed(line.split())) + "\n" for line in lines))
    run(
        *(binary, "prepare", "--train-sets", path("train.source"), path("train.target")),
        *("--valid-sets", path("valid.source"), path("valid.target")),
        *("--tokenizer-model", path("tokenizer.model"), "--output", path("corpus.h5")),
    )
    shape = [f"--{key.replace('_', '-')}={value}" for key, value in TINY_CONFIG.items() if not isinstance(value, bool)]
    run(
        *(binary, "train", "--corpus", path("corpus.h5"), "--model-dir", path("run"), "--preset", "tiny"),
        *(option for option in shape if not option.startswith("--zero-word")),
        *("--begin-embedding", "zero", "--batch-source-tokens", 1000, "--batch-target-tokens", 1000),
        *("--max-steps", 1500, "--warmup-steps", 100, "--learning-rate-scale", 0.5, "--valid-every", 0),
        *("--threads", 1),
    )
    run(binary, "export", "--model", path("run"), "--format", "safetensors", "--output", path("trained"))
    weights = {name: rounded(values.ravel().tolist()) for name, values in load_file(path("trained")).items() if name != "tokenizer"}
    with open(path("tokenizer.model"), "rb") as file:
        tokenizer = base64.b64encode(file.read()).decode()
    train_tiny_tokenizer(path("source.model"), 19)
    with open(path("source.model"), "rb") as file:
        source_tokenizer = base64.b64encode(file.read()).decode()
    return {
        "tokenizer": tokenizer,
        "source_tokenizer": source_tokenizer,
        "words": 14,
        "source_words": 19,
        "weights": weights,
    }


def files_of(folder):
    """SHA-256 of the files of an export that hold no computed number."""
    digests = {}
    for name in sorted(os.listdir(folder)):
        if name in ("probe.json", "model.bin"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            digests[name] = hashlib.sha256(file.read()).hexdigest()
    return digests


def make_golden(binary):
    with tempfile.TemporaryDirectory(prefix="ventris-exports-") as folder:
        golden = train_tiny_model(binary, folder)
        golden.update({"translations": {}, "files": {}})
        model = os.path.join(folder, "tiny.safetensors")
        write_tiny_model(model, golden)
        for output_format, peer, probes in peers_of(binary, model, folder):
            if peer.difference(probes) > 1e-4:
                raise RuntimeError(f"{peer.name} computes other logits")
            golden["probes"] = probes
            for beam in BEAMS:
                theirs = peer.translate(TINY_LINES, beam)
                expected = golden["translations"].setdefault(str(beam), theirs)
                if expected != theirs:
                    raise RuntimeError(f"{peer.name} gives {theirs}, where {expected} was expected")
            golden["files"].setdefault(output_format, files_of(os.path.join(folder, output_format + "-f32")))
            print(f"{output_format}: {peer.name}")
    with open(GOLDEN, "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "golden"])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model")
    parser.add_argument("--source")
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    if options.what == "golden":
        make_golden(options.binary)
        return 0
    lines = []
    if options.source:
        with open(options.source, encoding="utf-8") as file:
            lines = [line for line in file.read().split("\n") if line][: options.sentences]
    return 0 if check(options.binary, options.model, lines) else 1


if __name__ == "__main__":
    sys.exit(main())
