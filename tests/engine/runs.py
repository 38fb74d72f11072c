"""Runs over the tiny Llama that several tests of the session share, and what to check of them."""

from __future__ import annotations

from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.trace import Settings
from tests.engine import kit
from tests.engine.kit import EOS, TINY, TINY_D, alone, header, session

PROMPT = [3, 1, 4, 1, 5]
ORACLE = alone(TINY, PROMPT, 40)
GREEDY = Settings(drafter="script", k=4)
SAMPLED = Settings(drafter="model", k=3, temperature=0.9, top_k=40, top_p=0.95, quality=70.0)


def oracle_script(wrong_every: int = 0, start: int = 0) -> kit.Script:
    """Proposes what the target will say; every `wrong_every`-th token of the text is wrong."""

    def guess(text: list[int]) -> int:
        at = len(text) - len(PROMPT)
        right = ORACLE[at] if at < len(ORACLE) else 0
        return (right + 1) % EOS if wrong_every and (at + start) % wrong_every == 0 else right

    return kit.Script(guess)


def sampled_run(seed=5, settings=SAMPLED, **changes):
    model = ModelDrafter("model", Runner(TINY_D))
    return session(Runner(TINY), model, header(PROMPT, settings, seed=seed, **changes))


def essence(rounds):
    """What was drafted, decided and written, with probabilities but for their last bits."""
    return [
        [
            (g.token.id, g.verdict, g.draw, round(g.draft_prob, 9), round(g.target_prob, 9))
            for g in made.guesses
        ]
        + [made.emitted and (made.emitted.token.id, made.emitted.draw, made.emitted.kind)]
        for made in rounds
    ]


def check_verdicts(rounds):
    """Verdicts form accepted*, at most one rejected, discarded*; draws are there iff judged."""
    for made in rounds:
        shape = "".join(guess.verdict[0] for guess in made.guesses)
        judged = shape.rstrip("d")
        assert judged.strip("a") in ("", "r")
        assert judged.find("r") in (-1, len(judged) - 1)
        for guess in made.guesses:
            assert (guess.draw is None) == (guess.verdict == "discarded")
        if made.emitted is None:
            assert "r" not in shape
        else:
            assert made.emitted.kind == ("bonus" if made.accepted == len(shape) else "recovered")
