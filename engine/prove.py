"""``main.py prove``: on the real pair, that speculation changes nothing.

At temperature 0 the two texts must be equal, token for token. With a temperature they need
not be (the draws differ), but their *law* must be: many short continuations are sampled both
ways, and the two samples compared (see `compare`). The proof brings its own control: a rule
broken on purpose, which it must catch.

The acceptance rule itself is proven without sampling, by enumeration, in the tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from engine.compare import Likeness, Pull, compare
from engine.config import settings_of
from engine.decode import Session
from engine.drafters.proposal import common_prefix
from engine.requests import Start
from engine.stats import Stats
from engine.trace import RunProof, Scored, Settings
from engine.verification import Verdict, pick, verify

PROMPTS = (
    "Explain why the sky is blue.",
    "Write a short story about a lighthouse keeper.",
    "List five ways to save water at home.",
    "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
    "What is 12 times 12?",
)
SAMPLED_PROMPT = "Q: What is 7 plus 5? A:"
"""Open enough to test a law, narrow enough that a few hundred samples repeat themselves."""

SAMPLES = 300
SAMPLED_TOKENS = 3
"""Long enough that a round's guesses, corrections and bonus tokens all reach the sample."""

CONTROL_SHARE = 2
"""The control takes one continuation for so many of the proof."""

DOUBT = 1e-3
"""A p-value below this would be seen once in a thousand proofs of a sound program."""


class Engine(Protocol):
    """What a proof needs of an engine."""

    def begin(self, start: Start) -> Session: ...


@dataclass(frozen=True, slots=True)
class GreedyProof:
    """Two texts compared, and what the second one took."""

    run: RunProof
    stats: Stats

    @property
    def holds(self) -> bool:
        return self.run.holds


@dataclass(frozen=True, slots=True)
class LawProof:
    """Two samples compared, and the drafter's pull on the one that it guessed for."""

    likeness: Likeness
    pull: Pull

    @property
    def p_value(self) -> float:
        """Chance that a sound program gives findings as unlikely as the least likely of three."""
        alike = self.likeness
        return min(1.0, 3 * min(alike.p_distance, alike.p_chi_square, self.pull.p_value))

    @property
    def holds(self) -> bool:
        return self.p_value >= DOUBT


def greedy(begin: Callable[[Settings], Session], settings: Settings) -> GreedyProof:
    """Write one text both ways at temperature 0 and compare them."""
    cold = replace(settings, temperature=0.0)
    alone = begin(replace(cold, speculative=False))
    list(alone.rounds())
    together = begin(cold)
    stats = Stats.of(together.rounds())
    prompt, tokens = len(together.header.prompt_tokens), len(together.choices)
    if alone.ids == together.ids:
        return GreedyProof(RunProof(tokens), stats)
    shared = common_prefix(alone.ids, together.ids) - prompt
    return GreedyProof(
        RunProof(tokens, shared, _best(together, shared), _best(alone, shared)), stats
    )


def _best(run: Session, place: int) -> tuple[Scored, ...]:
    """The two likeliest tokens of the pass that chose a new token; none where the text ended."""
    choice = run.choices[place] if place < len(run.choices) else None
    return () if choice is None else choice.best


def sampled(
    begin: Callable[[Settings], Session], settings: Settings, samples: int, seed: int = 0
) -> LawProof:
    """Sample `samples` continuations both ways and compare their laws."""
    alone, _ = sample(begin(replace(settings, speculative=False)), samples, seed)
    together, pull = sample(begin(settings), samples, seed + samples)
    return LawProof(compare(alone, together), pull)


def control(
    begin: Callable[[Settings], Session], settings: Settings, samples: int, seed: int = 0
) -> Pull:
    """What the proof would see of a program with a broken rule."""
    session = begin(settings)
    session.rule = without_residual
    return sample(session, samples, seed)[1]


def without_residual(
    target_probs: Tensor,
    draft_probs: Tensor,
    draft_tokens: Sequence[int],
    parents: Sequence[int] | None,
    accept_draws: Sequence[float],
    emit_draw: float,
) -> Verdict:
    """A broken rule: corrections from the target's whole law, not from what it still owes."""
    verdict = verify(target_probs, draft_probs, draft_tokens, parents, accept_draws, emit_draw)
    law = target_probs[verdict.rows[-1]]
    return replace(verdict, token=pick(law, emit_draw), emit_probs=law)


def sample(session: Session, samples: int, seed: int) -> tuple[list[tuple[int, ...]], Pull]:
    """The ids of short continuations, each from a seed of its own, and the drafter's pull."""
    prompt = len(session.header.prompt_tokens)
    found: list[tuple[int, ...]] = []
    pull = Pull()
    for offset in range(samples):
        session.restart(seed + offset)
        for made in session.rounds():
            check = session.checked
            assert check is not None  # of this very round
            for row, token in zip(check.verdict.rows, made.committed, strict=False):
                first = next(
                    (i for i, parent in enumerate(check.parents) if parent + 1 == row), None
                )
                if first is not None:  # the first guess made for this place
                    laws = check.target_probs[row], check.draft_probs[first]
                    pull = pull.after(*laws, token.id)
        found.append(session.ids[prompt:])
    return found, pull


# --- the command ------------------------------------------------------------------------------


def main(engine: Engine, args: argparse.Namespace) -> int:
    """Run the proof the options ask for and print it. Returns the exit code."""
    settings = settings_of(args)
    if settings.effective_k == 0:
        raise ValueError("Choose a drafter and a k above 0: there is nothing to prove otherwise.")
    holds = (
        _prove_law(engine, args, settings)
        if args.samples or args.temperature > 0
        else (_prove_greedy(engine, args, settings))
    )
    return 0 if holds else 1


def _prove_greedy(engine: Engine, args: argparse.Namespace, settings: Settings) -> bool:
    """Compare the texts of one prompt, or of a few of ours."""
    proofs = []
    for prompt in (args.prompt,) if args.prompt else PROMPTS:
        proof = greedy(_beginner(engine, args, prompt, args.max_new_tokens), settings)
        print(_greedy_lines(proof, prompt), flush=True)
        proofs.append(proof)
    good = sum(proof.holds for proof in proofs)
    print(
        f"{good} of {len(proofs)} texts are the target's own, token for token "
        f"({sum(proof.run.tokens for proof in proofs)} tokens, drafter {settings.drafter}, "
        f"k {settings.k_as_set}, quality {settings.quality:g} %)."
    )
    return good == len(proofs)


def _greedy_lines(proof: GreedyProof, prompt: str) -> str:
    shown = repr(prompt[:60])
    if proof.run.first_difference is None:
        length = proof.stats.mean_acceptance_length or 1.0
        return f"equal   {proof.run.tokens:4} tokens, {length:.2f} a round  {shown}"
    return (
        f"DIFFERS at new token {proof.run.first_difference + 1}  {shown}\n"
        f"        the target's two likeliest there, alone: {_scored_words(proof.run.alone)}\n"
        f"        and in the pass that verified: {_scored_words(proof.run.together)}"
    )


def _scored_words(best: Sequence[Scored]) -> str:
    """Tokens with their logits, and how far apart these are."""
    words = [f"{each.token.text!r} {each.logit:.6f}" for each in best]
    if len(best) == 2:
        words.append(f"gap {best[0].logit - best[1].logit:.2g}")
    return ", ".join(words) or "none: the text had ended"


def _prove_law(engine: Engine, args: argparse.Namespace, settings: Settings) -> bool:
    """Compare the laws of short continuations of one prompt."""
    prompt, raw = (args.prompt, args.raw) if args.prompt else (SAMPLED_PROMPT, True)
    samples = args.samples or SAMPLES
    begin = _beginner(engine, argparse.Namespace(raw=raw), prompt, SAMPLED_TOKENS)
    print(f"Sampling {samples} continuations of {SAMPLED_TOKENS} tokens each way: {prompt!r}")
    proof = sampled(begin, settings, samples, args.seed)
    twin = control(begin, settings, max(1, samples // CONTROL_SHARE), args.seed + 2 * samples)
    print(_law_lines(proof, twin))
    return proof.holds


def _law_lines(proof: LawProof, twin: Pull) -> str:
    alike, pull = proof.likeness, proof.pull
    return "\n".join(
        (
            f"distinct continuations  {alike.distinct}",
            f"total variation         {alike.total_variation:.4f} (by chance alone "
            f"{alike.by_chance:.4f}; p {alike.p_distance:.3f})",
            f"chi-square              {alike.chi_square:.1f} at {alike.degrees} degrees of freedom "
            f"(p {alike.p_chi_square:.3f})",
            f"tokens the drafter overrates  {pull.found} in {pull.places} judged places, "
            f"{pull.expected:.1f} expected (p {pull.p_value:.3f})",
            "The two samples are as alike as two samples of one law."
            if proof.holds
            else "The two samples are further apart than chance allows.",
            _control_line(twin),
        )
    )


def _control_line(twin: Pull) -> str:
    broken = "control: a broken rule (corrections drawn from the target's whole law)"
    odds = f"p = {twin.p_value:.1g}"
    if 3 * twin.p_value < DOUBT:
        return f"{broken} is caught ({odds})"
    return f"{broken} goes unseen in so few guesses ({odds}): ask for more --samples"


def _beginner(
    engine: Engine, args: Any, prompt: str, max_new_tokens: int
) -> Callable[[Settings], Session]:
    """Runs of one prompt, by settings."""
    return lambda settings: engine.begin(
        Start(prompt, not args.raw, settings, max_new_tokens=max_new_tokens)
    )
