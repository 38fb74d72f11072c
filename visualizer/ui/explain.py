"""What a number on screen is made of: its own numerator and denominator, in words.

Pure: figures come from the measured statistics alone, and what is not known yet says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.stats import Stats
from engine.trace import Baseline, RunProof, Scored
from visualizer.dial import MEANS, Dial, Stop
from visualizer.stage.hud import Hud
from visualizer.stage.schedule import PASS

Lines = tuple[str, ...]
"""The sum itself first, then what is in it and what is not."""


def tokens_per_second(stats: Stats) -> Lines:
    seconds = stats.draft_seconds + stats.verify_seconds
    if not stats.timed_rounds:
        return ("tokens ÷ seconds of drafting and target passes", "No timed round yet.")
    return (
        f"{stats.timed_tokens} tokens ÷ {seconds:.3f} s = {_of(stats.tokens_per_second):.1f} per s",
        f"{stats.draft_seconds:.3f} s drafting + {stats.verify_seconds:.3f} s target passes,",
        f"measured over {_rounds(stats.timed_rounds)} since a setting last changed.",
        "Not in it: reading the prompt, showing it to you, a drafter's first round.",
    )


def acceptance(stats: Stats) -> Lines:
    if not stats.drafted:
        return ("accepted guesses ÷ all guesses", "Nobody has guessed yet.")
    discarded = stats.drafted - stats.accepted - stats.rejected
    judged = stats.accepted + stats.rejected
    alpha = f" = {stats.alpha:.0%}" if stats.alpha is not None else ""
    return (
        f"{stats.accepted} accepted ÷ {stats.drafted} guesses = {_of(stats.acceptance_rate):.1%}",
        f"{stats.rejected} rejected; {discarded} discarded, never judged: they count as guesses.",
        f"Of the {judged} that were judged, {stats.accepted} passed{alpha}.",
    )


def speedup(stats: Stats) -> Lines:
    rate, base = stats.tokens_per_second, stats.baseline
    if rate is None or base is None:
        return ("tokens a second ÷ those of the same target alone", "Not both measured yet.")
    lines = (
        f"{rate:.1f} ÷ {base.tokens_per_second:.1f} tokens a second = {_of(stats.speedup):.2f}x",
        f"Alone: one token a pass, {1e3 * base.pass_seconds:.1f} ms,"
        f" the median of {base.passes} passes in this session,",
        "the same weights, precision and kernels.",
    )
    return lines if stats.slowness is None else (*lines, f"Slower, because {stats.slowness}.")


def proof(found: RunProof | None) -> Lines:
    """What came of running the target alone after the run; nothing where it was not."""
    if found is None:
        return ()
    if found.first_difference is None:
        return ("Run alone afterwards, the target wrote the same, token for token.",)
    return (
        f"Run alone afterwards, the target parted at token {found.first_difference + 1}:",
        f"alone it preferred {_preference(found.alone)},",
        f"while verifying {_preference(found.together)}.",
    )


def _preference(best: Sequence[Scored]) -> str:
    """Two tokens and their logits, in words."""
    return " to ".join(f"“{each.token.text}” ({each.logit:.4f})" for each in best) or "to end"


def tokens_per_round(stats: Stats) -> Lines:
    if not stats.rounds:
        return ("1 + accepted ÷ rounds", "No round has been shown yet.")
    return (
        f"1 + {stats.accepted} accepted ÷ {_rounds(stats.rounds)}"
        f" = {_of(stats.mean_acceptance_length):.2f}",
        "The 1 is the target's own token: every round ends with one.",
    )


def draft_step(stats: Stats) -> Lines:
    return _mean(stats.draft_seconds, stats.timed_steps, "draft step", "drafting")


def target_pass(stats: Stats) -> Lines:
    return (
        *_mean(stats.verify_seconds, stats.timed_rounds, "pass", "target passes"),
        "Each checks all guesses of a round and one position more.",
    )


def _mean(seconds: float, count: int, one: str, all_of_it: str) -> Lines:
    if not count:
        return (f"milliseconds of {all_of_it} ÷ {one}s", "None measured yet.")
    many = f"{count} {one}{'' if count == 1 else 'es' if one.endswith('s') else 's'}"
    return (f"{1e3 * seconds:.1f} ms of {all_of_it} ÷ {many} = {1e3 * seconds / count:.2f} ms",)


def slowdown(factor: float, speed: float, baseline: Baseline | None) -> Lines:
    """`factor` is scene seconds per measured second, `speed` that of playback."""
    if factor <= 0:
        return ("seconds of the show ÷ measured seconds",)
    lines: Lines = (f"{factor:.1f} seconds of the show for a measured one ÷ speed {speed:g}",)
    if baseline is not None:
        one = 1e3 * baseline.pass_seconds
        lines += (f"A target pass alone takes {one:.1f} ms and is shown for {PASS:g} s.",)
    return (*lines, "Drafting and passes keep their measured ratio; verdicts take no time at all.")


def guesses(stats: Stats, k: int) -> Lines:
    first = f"K: up to {k} guess{'' if k == 1 else 'es'} asked for in a round"
    asked = stats.asked[0] if stats.asked else 0
    if not asked:
        return (first, "At 0 the target writes alone." if k == 0 else "No round shown yet.")
    made = f"{stats.drafted} guesses ÷ {_rounds(asked)} = {stats.drafted / asked:.2f} a round"
    return (first, f"Made so far: {made}.")


def quality(percent: float) -> Lines:
    weight = percent / 100
    return (
        f"Each guess is drawn from {weight:.2f} × draft law + {1 - weight:.2f} × unigram law",
        "Worse guesses, the same text: what is written keeps the target's law at any quality.",
    )


def dials(offered: Sequence[Dial]) -> Lines:
    """What the switch beneath the quality slider offers; nothing where there is none."""
    if len(offered) < 2:
        return ()
    return ("The slider can act through", *(f"  {each}: {MEANS[each]}" for each in offered))


def ladder(dial: Dial, stops: Sequence[Stop]) -> Lines:
    names = ", ".join(stop.drafter for stop in stops)
    return (
        f"The slider chooses the drafter by {MEANS[dial]}",
        f"From the worst guesser to the best: {names}.",
        "No noise is mixed in. The text keeps the target's law with each of them.",
    )


def match(shortest: int, longest: int) -> Lines:
    return (
        f"The last {longest} tokens are looked for earlier in this text, then fewer, down to"
        f" {shortest}" if shortest < longest else f"The last {longest} tokens are looked for"
        " earlier in this text",
        "What followed their latest occurrence is proposed. Short matches guess more often,"
        " long ones better.",
    )  # fmt: skip


def layers(count: int, of: int) -> Lines:
    return (
        f"A guess takes the target's first {count} of {of} layers, and its head",
        "More layers: better guesses, and dearer ones. The target is an ordinary checkpoint,"
        " never trained to be left early.",
    )


SAMPLING: dict[str, Lines] = {
    "top-k": (
        "Only the k likeliest tokens can be drawn",
        "0 or off: all of them.",
    ),
    "top-p": (
        "Only the likeliest tokens that make up this share of the law", "1 or off: all of them."
    ),
    "min-p": (
        "Only tokens with at least this share of the likeliest one's probability",
        "0 or off: all of them.",
    ),
    "penalty": (
        "Logits of tokens that the text has already are divided by it",
        "1 or off: none. Above 1 it repeats itself less, also at temperature 0.",
    ),
}  # fmt: skip


def temperature(value: float) -> Lines:
    if value == 0:
        return ("At 0 the likeliest token is always taken", "Each law puts all weight on one.")
    return (
        f"Both laws are made from logits ÷ {value:.2f}",
        "Higher: flatter laws, more surprising words, and guesses that are accepted by a draw.",
    )


def badge(name: str) -> Lines:
    return {
        "LIVE": ("LIVE: decoded on this machine while you watch.",),
        "RECORDED": ("RECORDED: a run that was measured before, as it was.",),
        "SIMULATED": ("SIMULATED: drawn from a formula, nothing in it is measured.",),
    }[name]


def histogram_bar(hud: Hud, accepted: int) -> Lines:
    total = sum(hud.histogram)
    count = hud.histogram[accepted] if accepted < len(hud.histogram) else 0
    if not total:
        return (f"Rounds that accepted {accepted}", "No round has been shown yet.")
    lines: Lines = (
        f"{count} of {_rounds(total)} accepted exactly {accepted} = {count / total:.0%}",
        f"Such a round adds {accepted + 1} token{'s' * (accepted > 0)}.",
    )
    before = sum(hud.ghost)
    if before and accepted < len(hud.ghost):
        lines += (f"Grey: {hud.ghost[accepted]} of {before} with the setting before.",)
    return lines


def position(stats: Stats, index: int) -> Lines:
    """Guess number `index`, from 1: in how many rounds it was accepted."""
    rounds = stats.asked[index - 1] if index <= len(stats.asked) else 0
    passed = sum(stats.histogram[index:])
    if not rounds:
        return (f"Rounds that accepted guess {index}", "No round asked for it yet.")
    return (
        f"Guess {index} was accepted in {passed} of {_rounds(rounds)} = {passed / rounds:.0%}",
        "In the others it was rejected, or never judged.",
    )


def _of(value: float | None) -> float:
    return 0.0 if value is None else value


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
