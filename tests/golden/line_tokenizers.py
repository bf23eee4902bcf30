#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what sacreBLEU computes with tokenizers that need a file, for tests/cli/line_tokenizers_test.py.

Needs sacrebleu[ja,ko]. Makes line_tokenizers.json beside this script and, unless it is there, the small SentencePiece model
line_tokenizers.model, which stands in for that of flores200. More text by hand:

    line_tokenizers.py --corpora 500 --seed 2 /tmp/cases.json
    VENTRIS_LINE_TOKENIZER_CASES=/tmp/cases.json tests/cli/line_tokenizers_test.py
"""

import argparse
import io
import json
import os
import random
import shutil
import tempfile

import sacrebleu
import sentencepiece
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers import tokenizer_spm

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "line_tokenizers.model")

ENGLISH = "the small boy reads a book and the old man sees two dogs at the sea . yesterday she went home , late".split()
JAPANESE = [
    "私は昨日", "、", "東京に行きました", "。", "彼は本を読んでいる", "すもももももももものうち", "データベース", "「はい」", "と言った",
    "寿司が食べられない", "12時30分", "お母さん", "ＡＢＣ", "ﾃｽﾄ", "！？", "外国人参政権", "です", "ます", "少年", "海",
]  # fmt: skip
KOREAN = [
    "나는", "어제", "서울에", "갔습니다", ".", "아버지가", "방에", "들어가신다", "책을 읽는다", "그녀는", "집에 갔다", ",", "데이터베이스",
    "12시", "한국어", "형태소 분석", "안녕하세요", "?", "하였다", "것이다",
]  # fmt: skip
ODD = ["", "▁", "🙂", "é", "é", "\u3000", "\u200b", "ÅÄ", "1,000.5", "x-y", "&quot;", "日本", "한국", "𠮷", "…", "―"]
SPACES = [" "] * 12 + ["", "", "  ", "\t", "\u3000"]


def sentence(rng, words):
    text = "".join(
        rng.choice(words if rng.random() < 0.9 else ODD) + (rng.choice(SPACES) if rng.random() < 0.5 else "")
        for _ in range(rng.randrange(1, 12))
    )
    return text.strip() or "。"


def changed(rng, text, words):
    """A translation that shares most of the text."""
    parts = text.split(" ")
    parts[rng.randrange(len(parts))] = rng.choice(words)
    return (" ".join(parts) if rng.random() < 0.7 else text + rng.choice(words)).strip()


def corpus(rng, words, lines):
    references = [[sentence(rng, words) for _ in range(lines)] for _ in range(rng.choice((1, 2)))]
    return {"system": [changed(rng, text, words) for text in references[0]], "references": references}


def scored(name, corpora):
    for case in corpora:
        lowercase = len(case["references"]) == 2
        whole = BLEU(tokenize=name, lowercase=lowercase)
        case["lowercase"] = lowercase
        case["score"] = whole.corpus_score(case["system"], case["references"]).score
        case["signature"] = whole.get_signature().format()
        each = BLEU(tokenize=name, lowercase=lowercase, effective_order=True)
        lines = zip(case["system"], zip(*case["references"]))
        case["scores"] = [each.sentence_score(system, list(references)).score for system, references in lines]
    return corpora


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpora", type=int, default=6)
    parser.add_argument("--lines", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("output", nargs="?", default=os.path.join(HERE, "line_tokenizers.json"))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    mixed = ENGLISH * 2 + JAPANESE + KOREAN
    if not os.path.exists(MODEL):
        model = io.BytesIO()
        text = [sentence(random.Random(i), [word + " " for word in mixed]) for i in range(3000)]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text), model_writer=model, vocab_size=150, character_coverage=0.98,
            normalization_rule_name="identity"
        )  # fmt: skip
        with open(MODEL, "wb") as file:
            file.write(model.getvalue())
    # Where sacreBLEU keeps the models that it has downloaded.
    tokenizer_spm.SACREBLEU_DIR = tempfile.mkdtemp()
    os.mkdir(os.path.join(tokenizer_spm.SACREBLEU_DIR, "models"))
    for url in {entry["url"] for entry in tokenizer_spm.SPM_MODELS.values()}:
        shutil.copy(MODEL, os.path.join(tokenizer_spm.SACREBLEU_DIR, "models", os.path.basename(url)))
    cases = {
        "sacrebleu": sacrebleu.__version__,
        "flores200": scored("flores200", [corpus(rng, mixed, options.lines) for _ in range(options.corpora)]),
        "flores101": scored("flores101", [corpus(rng, mixed, options.lines) for _ in range(options.corpora)]),
        "ja-mecab": scored("ja-mecab", [corpus(rng, JAPANESE, options.lines) for _ in range(options.corpora)]),
        "ko-mecab": scored("ko-mecab", [corpus(rng, KOREAN, options.lines) for _ in range(options.corpora)]),
    }
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(cases, file, ensure_ascii=False, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
