# SPDX-License-Identifier: Apache-2.0
"""The schedules of the learning rate: the formulas of Marian and fairseq, contradictions and kills."""

import math
import os
import signal
import unittest

import support

STEPS = 100
MODEL = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 8, "--d-ff", 8, "--heads", 1, "--threads", 1),
    *("--batch-source-tokens", 192, "--batch-target-tokens", 192, "--logical-shards", 2, "--log-every", 1),
    *("--valid-beam-size", 0, "--precision", "f32", "--reduction", "reproducible"),
]


# Marian 1.12, src/training/scheduler.h: updateLearningRate() and getScheduledLRDecayFactor(), after n updates.
def marian(n, rate, warmup, inverse_sqrt):
    return rate * min(1.0, n / warmup) * (math.sqrt(inverse_sqrt / n) if n > inverse_sqrt else 1.0)


# fairseq 0.12.2, fairseq/optim/lr_scheduler: step_update(n) of inverse_square_root_schedule.py and of the others.
def inverse_sqrt(n, lr, warmup):
    return n * lr / warmup if n < warmup else lr * warmup**0.5 * n**-0.5


def cosine(n, lr, warmup, period):
    return n * lr / warmup if n < warmup else 0.5 * lr * (1 + math.cos(math.pi * (n - warmup) / period))


def polynomial(n, lr, warmup, total):
    if n <= warmup:
        return n / warmup * lr
    return 0.0 if n >= total else lr * (1 - (n - warmup) / (total - warmup))


def fixed(n, lr, warmup):
    return (n + 1) / warmup * lr if n < warmup else lr


# Options of ours, and the peer's rate of our step.
PEERS = {
    "Marian --lr-decay-inv-sqrt": (
        [*("--schedule", "inverse-sqrt", "--peak-learning-rate", 0.0003, "--warmup-steps", 16, "--decay-steps", 24)],
        lambda s: marian(s, 0.0003, 16, 24),
    ),
    "Marian, a start of the decay within the warm-up": (
        [*("--schedule", "inverse-sqrt", "--peak-learning-rate", 0.0003, "--warmup-steps", 30, "--decay-steps", 20)],
        lambda s: marian(s, 0.0003, 30, 20),
    ),
    "fairseq inverse_sqrt": (
        [*("--schedule", "inverse-sqrt", "--peak-learning-rate", 5e-4, "--warmup-steps", 20)],
        lambda s: inverse_sqrt(s, 5e-4, 20),
    ),
    "fairseq cosine, one period": (
        [*("--schedule", "cosine", "--peak-learning-rate", 5e-4, "--warmup-steps", 10)],
        lambda s: cosine(s, 5e-4, 10, STEPS + 1 - 10),
    ),
    "fairseq polynomial_decay, power 1": (
        [*("--schedule", "linear", "--peak-learning-rate", 5e-4, "--warmup-steps", 10, "--decay-steps", 70)],
        lambda s: polynomial(s, 5e-4, 10, 80),
    ),
    # This one counts the update under way.
    "fairseq fixed": (
        [*("--schedule", "constant", "--peak-learning-rate", 5e-4, "--warmup-steps", 10)],
        lambda s: fixed(s - 1, 5e-4, 10),
    ),
}
PLATEAU = [
    *("--schedule", "plateau", "--peak-learning-rate", 3.0, "--warmup-steps", 6),
    *("--plateau-factor", 0.25, "--valid-every", 2, "--valid-metric", "loss"),
    *("--digest-every", 1, "--max-steps", 24),
]


# fairseq's reduce_lr_on_plateau with torch.optim.lr_scheduler.ReduceLROnPlateau: patience 0, rel, lr_shrink 0.25.
def reduce_on_plateau(losses, warmup, lr, shrink, steps):
    best, after, rates = math.inf, lr, []
    for step in range(1, steps + 1):
        rates.append(step * lr / warmup if step < warmup else after)
        if step in losses and step > warmup:
            if losses[step] < best:
                best = losses[step]
            else:
                after *= shrink
    return rates


class Schedules(support.RunTest):
    CORPUS = {"train_pairs": 200, "vocabulary": 120}
    MODEL = MODEL

    def test_every_step_has_the_rate_of_the_peer(self):
        for number, (peer, (options, formula)) in enumerate(PEERS.items()):
            with self.subTest(peer):
                last = STEPS + 1 if peer.endswith("one period") else STEPS
                self.succeed(*self.train(f"peer-{number}", *options, valid_every=0, max_steps=last))
                rates = self.values(f"peer-{number}", "learning_rate")
                for step in range(1, STEPS + 1):
                    self.assertLess(abs(rates[step] - formula(step)), 1e-12 * max(abs(formula(step)), 1e-30), step)

    def test_kills_in_the_warm_up_and_at_a_drop_change_nothing_on_any_ranks(self):
        text = self.told(*self.train("whole", *PLATEAU))
        drops = self.values("whole", "factor")
        self.assertGreater(len(drops), 1, "the rate does not drop: the run tells nothing")
        self.assertIn("the learning rate drops from 3 to 0.75", text)
        expected = reduce_on_plateau(self.values("whole", "valid_loss"), 6, 3.0, 0.25, 24)
        for step, rate in self.values("whole", "learning_rate").items():
            self.assertAlmostEqual(rate, expected[step - 1], delta=1e-12, msg=step)
        for ranks in (1, 2) if support.MPIEXEC else (1,):
            name = f"killed-{ranks}"
            words = self.train(name, *PLATEAU, save_every=1)
            for at in (3, *drops)[:3]:
                process = support.start(support.command(*words, ranks=ranks))
                support.wait_for(lambda at=at, name=name: os.path.exists(self.checkpoint(name, at)), process)
                process.send_signal(signal.SIGKILL if ranks == 1 else signal.SIGTERM)
                self.end_of(process)
            self.succeed(*words, ranks=ranks)
            for key in ("digest", "learning_rate", "factor"):
                self.assertEqual(self.values(name, key), self.values("whole", key))
            one, two = (support.checkpoint_bits(self.checkpoint(run, 24)) for run in (name, "whole"))
            for key in ("plateau_factor", "plateau_best", "plateau_best_step", "plateau_validations"):
                self.assertEqual(one[key], two[key], key)

    def test_contradictions_are_one_clear_error(self):
        peak = ("--peak-learning-rate", 0.001)
        for options, says in {
            ("--schedule", "cosine"): ["--peak-learning-rate"],
            ("--schedule", "linear", *peak, "--learning-rate-scale", 2): ["--learning-rate-scale", "leave out"],
            peak: ["--peak-learning-rate", "noam"],
            ("--schedule", "linear", *peak, "--max-steps", 10, "--warmup-steps", 20): ["step 10", "20", "--decay-steps"],
            ("--schedule", "plateau", *peak, "--valid-every", 0): ["--valid-every is 0"],
        }.items():
            with self.subTest(options=options):
                self.refuse(78, *self.train("refused", *options), says=says)


if __name__ == "__main__":
    unittest.main()
