# SPDX-License-Identifier: Apache-2.0
"""The schedules of the learning rate: the formulas of Marian and fairseq, contradictions and kills."""

import json
import math
import os
import signal
import unittest

import support

STEPS = 1000
MODEL = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 8, "--d-ff", 8, "--heads", 1, "--threads", 1),
    *("--batch-source-tokens", 192, "--batch-target-tokens", 192, "--logical-shards", 2, "--log-every", 1),
    *("--valid-beam-size", 0, "--precision", "f32", "--reduction", "reproducible"),
]


# Marian 1.12, src/training/scheduler.h: updateLearningRate() and getScheduledLRDecayFactor(), after n updates.
def marian(n, rate, warmup, inverse_sqrt, start=None, start_rate=0.0):
    start = inverse_sqrt if start is None else start
    warm = min(1.0, n / warmup)
    decay = math.sqrt(inverse_sqrt / (n - start + inverse_sqrt)) if n > start else 1.0
    return rate * warm * decay - start_rate * warm * decay + start_rate * decay


# fairseq 0.12.2, fairseq/optim/lr_scheduler: step_update(n) of inverse_square_root_schedule.py and of the others.
def inverse_sqrt(n, lr, warmup, init):
    return init + n * (lr - init) / warmup if n < warmup else lr * warmup**0.5 * n**-0.5


def cosine(n, lr, warmup, init, period, min_lr):
    if n < warmup:
        return init + n * (lr - init) / warmup
    return min_lr + 0.5 * (lr - min_lr) * (1 + math.cos(math.pi * (n - warmup) / period))


def polynomial(n, lr, warmup, total, end):
    if n <= warmup:
        return n / warmup * lr
    return end if n >= total else (lr - end) * (1 - (n - warmup) / (total - warmup)) + end


def fixed(n, lr, warmup):
    return (n + 1) / warmup * lr if n < warmup else lr


# Options of ours, and the peer's rate of our step.
PEERS = {
    "Marian --lr-decay-inv-sqrt": (
        [*("--schedule", "inverse-sqrt", "--peak-learning-rate", 0.0003, "--warmup-steps", 160, "--decay-steps", 240)],
        lambda s: marian(s, 0.0003, 160, 240),
    ),
    "Marian, a start of the decay within the warm-up": (
        [
            *("--schedule", "inverse-sqrt", "--peak-learning-rate", 0.0003, "--warmup-steps", 300, "--decay-steps", 200),
            *("--decay-start", 100, "--warmup-from", 1e-5),
        ],
        lambda s: marian(s, 0.0003, 300, 200, 100, 1e-5),
    ),
    "fairseq inverse_sqrt": (
        [*("--schedule", "inverse-sqrt", "--peak-learning-rate", 5e-4, "--warmup-steps", 200, "--warmup-from", 1e-7)],
        lambda s: inverse_sqrt(s, 5e-4, 200, 1e-7),
    ),
    "fairseq cosine, one period": (
        [*("--schedule", "cosine", "--peak-learning-rate", 5e-4, "--warmup-steps", 100, "--min-learning-rate", 1e-6)],
        lambda s: cosine(s, 5e-4, 100, 0.0, STEPS + 1 - 100, 1e-6),
    ),
    "fairseq polynomial_decay, power 1": (
        [*("--schedule", "linear", "--peak-learning-rate", 5e-4, "--warmup-steps", 100, "--decay-steps", 700)],
        lambda s: polynomial(s, 5e-4, 100, 800, 0.0),
    ),
    # This one counts the update under way.
    "fairseq fixed": (
        [*("--schedule", "constant", "--peak-learning-rate", 5e-4, "--warmup-steps", 100)],
        lambda s: fixed(s - 1, 5e-4, 100),
    ),
}
PLATEAU = [
    *("--schedule", "plateau", "--peak-learning-rate", 3.0, "--warmup-steps", 6, "--warmup-from", 0.5),
    *("--plateau-factor", 0.25, "--min-learning-rate", 0.02, "--valid-every", 2, "--valid-metric", "loss"),
    *("--digest-every", 1, "--max-steps", 24),
]


# fairseq's reduce_lr_on_plateau with torch.optim.lr_scheduler.ReduceLROnPlateau: patience 0, rel, lr_shrink 0.25.
def reduce_on_plateau(losses, warmup, lr, init, shrink, low, steps):
    best, after, rates = math.inf, lr, []
    for step in range(1, steps + 1):
        rates.append(init + step * (lr - init) / warmup if step < warmup else after)
        if step in losses and step > warmup:
            if losses[step] < best:
                best = losses[step]
            else:
                after = max(after * shrink, low)
    return rates


class Schedules(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)

    def command(self, name, *options, ranks=1):
        return support.command(
            "train", "--corpus", self.corpus, "--model-dir", self.path(name), *MODEL, *options, ranks=ranks
        )

    def lines(self, name, key):
        with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if key in line]

    def run_to_end(self, name, *options, ranks=1):
        process = support.start(self.command(name, *options, ranks=ranks))
        text = process.communicate(timeout=300)[1].decode(errors="replace")
        self.assertEqual(process.returncode, 0, text)
        return text

    def rates(self, name):
        return {line["step"]: line["learning_rate"] for line in self.lines(name, "learning_rate")}

    def test_a_thousand_steps_have_the_rates_of_the_peers(self):
        for number, (peer, (options, formula)) in enumerate(PEERS.items()):
            with self.subTest(peer):
                last = STEPS + 1 if peer.endswith("one period") else STEPS
                name = f"peer-{number}"
                self.run_to_end(name, *options, "--valid-every", 0, "--max-steps", last)
                rates = self.rates(name)
                self.assertGreaterEqual(len(rates), STEPS)
                difference = max(
                    abs(rates[step] - formula(step)) / max(abs(formula(step)), 1e-30) for step in range(1, STEPS + 1)
                )
                print(f"{peer}: largest relative difference {difference:.1e}")
                self.assertLess(difference, 1e-12)

    def same_run(self, name, other):
        digests = [{line["step"]: line["digest"] for line in self.lines(run, "digest")} for run in (name, other)]
        self.assertEqual(*digests)
        self.assertEqual(self.rates(name), self.rates(other))
        drops = [[(line["step"], line["factor"]) for line in self.lines(run, "factor")] for run in (name, other)]
        self.assertEqual(*drops)
        one, two = (support.checkpoint_bits(self.path(run, "checkpoint-00000024.h5")) for run in (name, other))
        for key in ("plateau_factor", "plateau_best", "plateau_best_step", "plateau_validations"):
            self.assertEqual(one[key], two[key], key)

    def test_kills_in_the_warm_up_and_at_a_drop_change_nothing_on_any_ranks(self):
        text = self.run_to_end("whole", *PLATEAU)
        drops = [line["step"] for line in self.lines("whole", "factor")]
        self.assertGreater(len(drops), 1, "the rate does not drop: the run tells nothing")
        self.assertIn("the learning rate drops from 3 to 0.75", text)
        losses = {line["step"]: line["valid_loss"] for line in self.lines("whole", "valid_loss")}
        expected = reduce_on_plateau(losses, 6, 3.0, 0.5, 0.25, 0.02, 24)
        for step, rate in self.rates("whole").items():
            self.assertAlmostEqual(rate, expected[step - 1], delta=1e-12, msg=step)
        for ranks in (1, 2):
            name = f"killed-{ranks}"
            for at in (3, drops[0], drops[-1]):
                process = support.start(self.command(name, *PLATEAU, "--save-every", 1, ranks=ranks))
                reached = lambda at=at, name=name: (
                    os.path.exists(self.path(name, f"checkpoint-{at:08}.h5"))
                )
                support.wait_for(reached, process)
                process.send_signal(signal.SIGKILL if ranks == 1 else signal.SIGTERM)
                process.communicate(timeout=120)
            self.run_to_end(name, *PLATEAU, "--save-every", 1, ranks=ranks)
            self.same_run("whole", name)

    def test_contradictions_are_one_clear_error(self):
        peak = ("--peak-learning-rate", 0.001)
        for options, words in {
            ("--schedule", "cosine"): ["--peak-learning-rate"],
            ("--schedule", "linear", *peak, "--learning-rate-scale", 2): ["--learning-rate-scale", "leave out"],
            peak: ["--peak-learning-rate", "noam"],
            ("--schedule", "linear", *peak, "--max-steps", 10, "--warmup-steps", 20): ["step 10", "20", "--decay-steps"],
            ("--schedule", "linear", *peak, "--decay-start", 5, "--warmup-steps", 20): ["--decay-start is 5", "20"],
            ("--schedule", "constant", *peak, "--min-learning-rate", 1e-5): ["--min-learning-rate", "constant"],
            ("--schedule", "linear", *peak, "--min-learning-rate", 1): ["--min-learning-rate is 1", "0.001"],
            ("--schedule", "linear", *peak, "--warmup-from", 1): ["--warmup-from is 1", "0.001"],
            ("--schedule", "plateau", *peak, "--valid-every", 0): ["--valid-every is 0"],
        }.items():
            with self.subTest(options=options):
                process = support.start(self.command("refused", *options))
                text = process.communicate(timeout=60)[1].decode()
                self.assertEqual(process.returncode, 78, text)
                for word in words:
                    self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
