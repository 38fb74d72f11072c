"""One thing of a run under the microscope: what is known of it at a moment, and in words.

Nothing is told before its time: a guess has no verdict here until the show has read it, and
the target's law of it is unknown until the pass is over. Pure; knows no window and no panel.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from engine.families import About
from engine.trace import Emitted, Guess, Round, RunHeader, Token, join_text
from visualizer.stage import pick, tree
from visualizer.stage.drafters import kind_of
from visualizer.stage.layout import closing_role
from visualizer.stage.text import visible
from visualizer.stage.theme import Role
from visualizer.stage.timeline import RoundSpans, Timeline

Known = Literal["nothing", "drafted", "weighed", "judged"]
"""What the show has told: not there yet, proposed, weighed by the target's pass, decided."""

QUOTED = 7  # tokens on either side of where a guess was copied from


@dataclass(frozen=True, slots=True)
class Specimen:
    """A thing of round `round`: `slot` as in `pick`. `known` has one entry per guess as well.

    `position` is where its token stands in the sequence, counted from the prompt's start.
    """

    picked: int
    slot: int
    round: Round
    known: Known
    guesses_known: tuple[Known, ...]
    landed: bool  # the token that ends the round is on its way or there
    timeline: Timeline
    header: RunHeader | None

    @property
    def guess(self) -> Guess | None:
        """The guess, if this is one."""
        return self.round.guesses[self.slot] if self.slot < len(self.round.guesses) else None

    @property
    def emitted(self) -> Emitted | None:
        """The token that ended the round, if this is it."""
        return self.round.emitted if self.slot == pick.EMITTED else None

    @property
    def position(self) -> int:
        guessed = self.slot < len(self.round.guesses)
        steps = tree.depths(self.round.parents)[self.slot] if guessed else self.round.accepted
        return self.round.position + steps

    @property
    def role(self) -> Role:
        """The colour it has on stage now."""
        guess = self.guess
        if guess is not None:
            verdicts: dict[str, Role] = {"accepted": "committed"}
            told: Role = verdicts.get(guess.verdict) or _role(guess.verdict)
            return told if self.known == "judged" else "guess"
        roles: dict[int, Role] = {pick.PASS: "target", pick.CHECK: "box", pick.DRAFT: "drafter"}
        return roles.get(self.slot) or closing_role(self.round)


@dataclass(frozen=True, slots=True)
class Quotation:
    """Text around the token that a guess was copied from."""

    before: str
    token: str
    after: str


def specimen(
    timeline: Timeline, header: RunHeader | None, picked: int, t: float
) -> Specimen | None:
    """Return what `picked` names, as far as it is known at `t`; None when it names nothing."""
    named = pick.decode(picked)
    if named is None or named[0] >= len(timeline.rounds):
        return None
    index, slot = named
    each, spans = timeline.rounds[index], timeline.spans[index]
    if slot not in slots_of(each):
        return None
    told = tuple(_guess_known(each, spans, number, t) for number in range(len(each.guesses)))
    return Specimen(
        picked=picked,
        slot=slot,
        round=each,
        known=told[slot] if slot < len(told) else _known(spans, slot, t),
        guesses_known=told,
        landed=t >= spans.land.start,
        timeline=timeline,
        header=header,
    )


def slots_of(each: Round) -> tuple[int, ...]:
    """The things of a round that can be looked at, in the order of the story."""
    guessed = bool(each.guesses)
    drafted = guessed or each.settings.effective_k > 0
    return (
        *((pick.DRAFT,) if drafted else ()),
        *range(len(each.guesses)),
        *((pick.CHECK,) if guessed else ()),
        pick.PASS,
        *((pick.EMITTED,) if each.emitted else ()),
    )


def next_to(timeline: Timeline, picked: int, steps: int, last: int) -> int:
    """The id `steps` further along the story; it goes no further than round `last`."""
    named = pick.decode(picked)
    if named is None or named[0] >= len(timeline.rounds):
        return picked
    index, slot = named
    slots = slots_of(timeline.rounds[index])
    at = slots.index(slot) + steps if slot in slots else 0
    if at >= len(slots) and index < min(last, len(timeline.rounds) - 1):
        return pick.encode(index + 1, slots_of(timeline.rounds[index + 1])[0])
    if at < 0 and index > 0:
        return pick.encode(index - 1, slots_of(timeline.rounds[index - 1])[-1])
    return pick.encode(index, slots[min(max(at, 0), len(slots) - 1)])


def first_of(timeline: Timeline, index: int) -> int:
    """The id of what a look at round `index` begins with: its first guess, else its pass."""
    if not 0 <= index < len(timeline.rounds):
        return 0
    return pick.encode(index, 0 if timeline.rounds[index].guesses else pick.PASS)


def _guess_known(each: Round, spans: RoundSpans, slot: int, t: float) -> Known:
    if t < spans.drops[slot].start:
        return "nothing"
    if t < spans.pulse.end:
        return "drafted"
    return "judged" if t >= spans.fates[slot].end else "weighed"


def _known(spans: RoundSpans, slot: int, t: float) -> Known:
    begins, ends = {
        pick.EMITTED: (spans.land.start, spans.land.start),
        pick.PASS: (spans.pulse.start, spans.pulse.end),
        pick.CHECK: (spans.close.start, spans.crack.start),
        pick.DRAFT: (spans.approach.end, spans.close.start),
    }[slot]
    return "nothing" if t < begins else "judged" if t >= ends else "drafted"


def _role(verdict: str) -> Role:
    return "rejected" if verdict == "rejected" else "discarded"


# --- in words ------------------------------------------------------------------------------


def name(what: Specimen) -> str:
    """What it is: "Guess 2 of 4", "Correction", …"""
    if what.guess is not None:
        return f"Guess {what.slot + 1} of {len(what.round.guesses)}"
    role = closing_role(what.round)
    return {
        pick.PASS: "Target pass",
        pick.CHECK: "The check",
        pick.DRAFT: "Draft steps",
    }.get(what.slot) or ("Target's own token" if role == "target" else role.capitalize())


def token_of(what: Specimen) -> Token | None:
    """Its token; None for what has none."""
    holder = what.guess or what.emitted
    return holder.token if holder is not None else None


def verdict(what: Specimen) -> str:
    """One sentence: what became of it, and why."""
    if what.known == "nothing":
        return "It has not happened yet."
    if what.guess is not None:
        return _guess_verdict(what, what.guess)
    if what.emitted is not None:
        return _emitted_verdict(what, what.emitted)
    return ""


def _guess_verdict(what: Specimen, guess: Guess) -> str:
    if what.known == "drafted":
        return "Proposed. One target pass will weigh all guesses at once."
    if what.known == "weighed":
        return "Weighed by the target; its verdict has not been read yet."
    if guess.verdict == "discarded" or guess.draw is None:
        return f"Discarded, never judged: {_never(what)}."
    accepted = guess.verdict == "accepted"
    greedy = what.round.settings.temperature == 0
    if guess.accept_prob >= 1.0:
        least = "the target gives it at least as much as the drafter did"
        why = "it is the very token the target writes" if greedy else least
        return f"Accepted for certain: {why}."
    if guess.accept_prob <= 0.0:
        never = "the target never writes it here"
        why = "the target writes another token" if greedy else never
        return f"Rejected for certain: {why}."
    word, sign = ("Accepted", "under") if accepted else ("Rejected", "not under")
    return f"{word}: the draw {guess.draw:.3f} is {sign} {guess.accept_prob:.3f}."


def _never(what: Specimen) -> str:
    """Why a guess was never judged."""
    by = tree.sealed_by(what.round, what.slot)
    if by is None:
        return "the text ended before it"
    other = what.round.guesses[by]
    if other.verdict == "rejected":
        return "a guess before it was rejected"
    kin = "its" if by in tree.siblings(what.round, what.slot) else "an"
    return f"{kin} elder sibling “{visible(other.token.text)}” passed"


def kinship(what: Specimen) -> str:
    """Where a guess stands in a tree; "" where nothing branches."""
    each = what.round
    if what.guess is None or not tree.branched(each):
        return ""
    before, others = each.parents[what.slot], tree.siblings(each, what.slot)
    after = "the text" if before == tree.ROOT else f"“{visible(each.guesses[before].token.text)}”"
    deep = tree.depths(each.parents)[what.slot] + 1
    among = f"sibling {others.index(what.slot) + 1} of {len(others)}, " if len(others) > 1 else ""
    return f"Depth {deep} of the tree: {among}after {after}."


def confidence(what: Specimen) -> str:
    """How sure the drafter itself was; "" where nothing says so.

    At temperature 0 no law shows it, and it is what makes a tree grow where it does.
    """
    guess = what.guess
    if guess is None or guess.confidence is None or what.known == "nothing":
        return ""
    own = f"The drafter's own chance of it: {prob(guess.confidence)}"
    whole = tree.hopes(what.round)[what.slot]
    if whole is None or not tree.branched(what.round):
        return f"{own}."
    return f"{own}; of its whole branch: {prob(whole)}, as thick as the branch is drawn."


def _emitted_verdict(what: Specimen, emitted: Emitted) -> str:
    if tree.branched(what.round):
        if emitted.kind == "recovered":
            return "Drawn from what the target still owed once every sibling was rejected."
        return "The path ended at a leaf, and the same pass gave the law of one more token."
    if emitted.kind == "recovered":
        return "Drawn from the residual law, in the place of the rejected guess."
    if what.round.guesses:
        return "All guesses passed, and the same pass gave the law of one more token."
    return "Nobody guessed: the target wrote this token by itself."


def rule(guess: Guess, wanted: str = "target") -> str:
    """The acceptance rule with this guess's numbers in it; `wanted` names the target's law."""
    return (
        f"min(1, {wanted} ÷ draft) = min(1, {prob(guess.target_prob)} ÷ {prob(guess.draft_prob)})"
        f" = {prob(guess.accept_prob)}"
    )


def prob(value: float) -> str:
    """A probability for people: three digits, and never 0 or 1 for what only comes near."""
    if 0.0 < value < 0.0005:
        return f"{value:.0e}".replace("e-0", "e-")
    if 0.9995 <= value < 1.0:
        return "0.999…"
    return f"{value:.3f}".rstrip("0").rstrip(".") if value in (0.0, 1.0) else f"{value:.3f}"


def source(what: Specimen, guess: Guess) -> str:
    """Who proposed it, and where it was copied from."""
    if guess.origin is not None:
        return f"Copied by the {guess.source} drafter from position {guess.origin} of this text:"
    if guess.source == "store":
        return "Copied from the store of the target's earlier replies."
    if guess.source == "memory":
        return "Copied from an earlier reply to you, remembered on this machine."
    drafter = what.header.drafter if what.header is not None else ""
    by = f"{drafter} drafter" if drafter else "drafter"
    part = f" ({guess.source})" if guess.source not in ("model", drafter) else ""
    return f"Proposed by the {by}{part}."


@lru_cache(maxsize=16)
def quotation(timeline: Timeline, origin: int) -> Quotation | None:
    """The text around position `origin`; None when the run does not reach there."""
    header = timeline.page.header
    tokens = list(header.prompt_tokens) if header is not None else []
    for each in timeline.rounds:
        if len(tokens) > origin + QUOTED:
            break
        tokens += each.committed
    if not 0 <= origin < len(tokens):
        return None
    return Quotation(
        join_text(tokens[max(origin - QUOTED, 0) : origin]),
        visible(tokens[origin].text),
        join_text(tokens[origin + 1 : origin + 1 + QUOTED]),
    )


def written_at(timeline: Timeline, position: int) -> int:
    """The pick id of the token at a position of the text; 0 in the prompt and past the end."""
    index = bisect_right(timeline.rounds, position, key=lambda each: each.position) - 1
    if index < 0 or position >= timeline.rounds[index].position + len(
        timeline.rounds[index].committed
    ):
        return 0
    each = timeline.rounds[index]
    slots = (*each.path, *((pick.EMITTED,) if each.emitted else ()))
    return pick.encode(index, slots[position - each.position])


def milliseconds(what: Specimen) -> str:
    """What it cost on the compute clock."""
    each = what.round
    took = f"target pass {1e3 * each.verify_seconds:.2f} ms for {_positions(each)}"
    if what.guess is None:
        return took.capitalize()
    steps = each.draft_step_seconds
    if len(steps) == len(each.guesses):
        return f"Draft step {1e3 * steps[what.slot]:.2f} ms, {took}"
    return f"{at_once(each).capitalize()} {1e3 * each.draft_seconds:.2f} ms for all guesses, {took}"


def at_once(each: Round) -> str:
    """What found all guesses of a round in one step."""
    return "one lookup" if all(guess.copied for guess in each.guesses) else "one draft pass"


def drafter(what: Specimen) -> About | None:
    """Who guessed in its round; None for somebody unknown."""
    return kind_of(what.round, what.header)


def _positions(each: Round) -> str:
    count = len(each.guesses) + 1
    return f"{count} position{'s' * (count != 1)} at once" if count > 1 else "1 position"
