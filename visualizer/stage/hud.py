"""What the panels are told about a moment: words and numbers, no positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from engine.stats import Stats
from engine.trace import (
    Baseline,
    Guess,
    Round,
    RunFailed,
    RunFinished,
    RunProof,
    Settings,
    Trace,
    readable,
)
from visualizer.stage import tree
from visualizer.stage.layout import closing_role
from visualizer.stage.tally import Tally
from visualizer.stage.text import visible
from visualizer.stage.theme import Role
from visualizer.stage.timeline import Phase, RoundSpans, Timeline

LONGEST_WORD = 16  # characters of a token in a caption

_VERDICT_ROLES: dict[str, Role] = {
    "accepted": "committed",
    "rejected": "rejected",
    "discarded": "discarded",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text in the colour of a role (see `theme`)."""

    text: str
    role: Role


@dataclass(frozen=True, slots=True)
class Hud:
    """A moment of a run as text. Everything counts shown rounds only.

    A round is shown once its last token has landed. `rounds` and `stats` are of the shown
    rounds since a setting last changed, `histogram[n]` the number of them that accepted n;
    `ghost` is the histogram under the setting before, empty when there was none.
    `pending` are the guesses on the table, in the colours of their verdicts so far, then the
    token that is landing; of a tree the branch on trial.
    `compute_seconds` is the drawn compute clock: measured seconds of drafting and passes
    up to this moment; it stands still while verdicts and landings are explained.
    `slowdown` is scene seconds per measured second. `end` and `proof` (the whole text against the
    target alone) are set once all has been shown.
    `k_reason` says why the present round has the K it has, where the engine chose it.
    """

    phase: Phase
    round_index: int  # -1 before the first round
    shown: int  # rounds of the whole run that have been shown
    settings: Settings | None
    rounds: tuple[Round, ...]
    stats: Stats
    histogram: tuple[int, ...]
    ghost: tuple[int, ...]
    prompt: str
    committed: tuple[Piece, ...]
    pending: tuple[Piece, ...]
    caption: tuple[Piece, ...]
    compute_seconds: float
    slowdown: float
    end: RunFinished | RunFailed | None
    k_reason: str = ""
    proof: RunProof | None = None


def tell(trace: Trace, timeline: Timeline, t: float) -> Hud:
    """Return what the panels say at time `t`."""
    now = timeline.round_at(t)
    header = trace.header
    spans = timeline.spans[now] if now >= 0 else None
    landed = spans is not None and t >= spans.land.end
    shown = now + landed if now >= 0 else 0
    ended = isinstance(trace.end, RunFinished) and trace.end.reason == "eos"
    past = timeline.tallies[shown - 1] if shown else None
    stats = _stats(past, header.baseline if header else None)
    text = _text(timeline, shown, ended)
    pending: tuple[Piece, ...] = ()
    caption: tuple[Piece, ...] = ()
    seconds = past.seconds if past else 0.0
    if spans is not None:
        each = timeline.rounds[now]
        caption = _caption(each, timeline, t)
        if not landed:
            pending = _pending(each, spans, t)
            seconds += spans.measured(t)
    over = t >= timeline.duration and shown == len(trace.rounds)
    settings = header.settings if header else None
    return Hud(
        phase=spans.phase(t) if spans else "approach",
        round_index=now,
        shown=shown,
        settings=timeline.rounds[now].settings if now >= 0 else settings,
        rounds=timeline.rounds[past.first : shown] if past else (),
        stats=stats,
        histogram=stats.histogram,
        ghost=past.ghost if past else (),
        prompt=header.prompt if header else "",
        committed=(Piece(text, "committed"),) if text else (),
        pending=pending,
        caption=caption,
        compute_seconds=seconds,
        slowdown=spans.factor if spans else timeline.factor,
        end=trace.end if over else None,
        proof=trace.proof if over else None,
        k_reason=timeline.rounds[now].k_reason if now >= 0 else "",
    )


@lru_cache(maxsize=8)
def _text(timeline: Timeline, count: int, ended: bool) -> str:
    """The text of the first `count` rounds of this very timeline.

    With `ended` the last token of the run is its end of text, and no part of the text.
    """
    texts = [tally.text for tally in timeline.tallies[:count]]
    if ended and 0 < count == len(timeline.rounds):
        texts[-1] = "".join(token.text for token in timeline.rounds[-1].committed[:-1])
    return readable("".join(texts))


@lru_cache(maxsize=8)
def _stats(tally: Tally | None, baseline: Baseline | None) -> Stats:
    return replace(tally.stats if tally else Stats.of(()), baseline=baseline)


def _pending(each: Round, spans: RoundSpans, t: float) -> tuple[Piece, ...]:
    """The guesses that have been dropped, as far as judged; of a tree those on trial."""
    told = [t >= fate.end for fate in spans.fates]
    landing = each.emitted is not None and t >= spans.land.start
    slots = each.path if landing else tree.trial(each, told)
    pieces = []
    for slot in slots if tree.branched(each) or landing else range(len(each.guesses)):
        guess = each.guesses[slot]
        if t >= spans.drops[slot].start:
            role = _VERDICT_ROLES[guess.verdict] if told[slot] else "guess"
            pieces.append(Piece(_readable(guess.token.text), role))
    if landing and each.emitted:
        pieces.append(Piece(_readable(each.emitted.token.text), closing_role(each)))
    return tuple(pieces)


def _readable(token_text: str) -> str:
    """A token's own text; where it holds half a character, its visible form."""
    broken = any(0xDC80 <= ord(char) <= 0xDCFF for char in token_text)
    return visible(token_text) if broken else token_text


def _caption(each: Round, timeline: Timeline, t: float) -> tuple[Piece, ...]:
    """One idea in at most 14 words, its key word in the colour of its role."""
    spans = timeline.spans[each.index]
    phase = spans.phase(t)
    many = len(each.guesses)
    guesses = "1 guess" if many == 1 else f"{many} guesses"
    if phase == "approach":
        return _summary(timeline.rounds[each.index - 1]) if each.index else _opening()
    if phase == "settle":
        return _summary(each)
    if phase == "draft":
        return _drafting(each, guesses)
    if phase == "close":
        every = ", every branch" if tree.branched(each) else ""
        return _words(f"One *box* around all {guesses}{every}: checked together.", "box")
    if phase == "pass":
        what = f"checks all {guesses} at once" if many > 1 else "checks 1 guess"
        return _words(f"One *target pass* {what if many else 'writes one token'}.", "target")
    if phase == "verdicts":
        return _judging(each, spans, t)
    if phase == "slide":
        return _words(f"The *path of {each.accepted}* comes down onto the line.", "committed")
    if phase == "shatter":
        if tree.branched(each) and each.emitted:
            return _surviving(each)
        later = sum(guess.verdict == "discarded" for guess in each.guesses)
        if each.accepted + later == many:
            return _words("The text ends here; later guesses are *discarded*.", "discarded")
        rest = f"; {later} after it discarded, unjudged" if later else ""
        word = _word(each.guesses[each.accepted].token.text)
        return _words(f"{word} is *rejected*{rest}.", "rejected")
    return _landing(each)


def _opening() -> tuple[Piece, ...]:
    return _words("The *prompt*: the text goes on from here.", "prompt")


def _summary(each: Round) -> tuple[Piece, ...]:
    many = len(each.committed)
    if each.emitted is None:
        return _words("The text is complete.")
    return _words(f"One target pass, *{many} token{'s' * (many != 1)}*.", "committed")


def _drafting(each: Round, guesses: str) -> tuple[Piece, ...]:
    if not each.guesses:
        if each.settings.effective_k > 0:
            return _words("The drafter finds nothing to *guess*.", "guess")
        return _words("No *guess* would pay here." if each.settings.chooses_k else "", "guess")
    if tree.branched(each):
        deep = max(tree.depths(each.parents)) + 1
        return _words(f"The drafter grows a *tree of {guesses}*, {deep} deep.", "guess")
    source = each.guesses[0].source
    if len(each.draft_step_seconds) != len(each.guesses):
        return _words(f"The drafter looks up *{guesses}* ({source}).", "guess")
    how = ", one after another" if len(each.guesses) > 1 else ""
    return _words(f"The drafter makes *{guesses}*{how}.", "guess")


def _judging(each: Round, spans: RoundSpans, t: float) -> tuple[Piece, ...]:
    begun = sum(t >= span.start for span in spans.verdicts)
    slot = spans.order[max(begun - 1, 0)]
    guess: Guess = each.guesses[slot]
    others = tree.siblings(each, slot)
    word = _word(guess.token.text)
    fate = "accepted" if guess.verdict == "accepted" else "rejected"
    role: Role = "committed" if fate == "accepted" else "rejected"
    if guess.accept_prob in (0.0, 1.0) or guess.draw is None:
        why = "the target agrees" if fate == "accepted" else "the target disagrees"
        if guess.accept_prob == 1.0 and each.settings.temperature > 0:
            least = "no less" if len(others) > 1 else "at least as much"
            why = f"the target likes it {least}"
    else:
        sign = "under" if fate == "accepted" else "not under"
        why = f"draw {guess.draw:.2f} is {sign} {guess.accept_prob:.2f}"
    among = f", sibling {others.index(slot) + 1} of {len(others)}" if len(others) > 1 else ""
    return _words(f"{word} is *{fate}*{among}: {why}.", role)


def _surviving(each: Round) -> tuple[Piece, ...]:
    """What is left of a tree once all that could be judged has been."""
    unjudged = sum(guess.verdict == "discarded" for guess in each.guesses)
    never = f"; {unjudged} {'was' if unjudged == 1 else 'were'} never judged" if unjudged else ""
    if not each.accepted:
        return _words(f"All siblings are *rejected*: no branch survives{never}.", "rejected")
    return _words(f"The *path of {each.accepted}* survives{never}.", "committed")


def _landing(each: Round) -> tuple[Piece, ...]:
    assert each.emitted is not None  # without it nothing lands
    word = _word(each.emitted.token.text)
    if each.emitted.kind == "recovered":
        its = (
            "their" if each.parents.count(each.path[-1] if each.path else tree.ROOT) > 1 else "its"
        )
        return _words(f"The target's own *correction* takes {its} place: {word}.", "correction")
    if not each.guesses:
        return _words(f"One pass of the *target*, one token: {word}.", "target")
    passed = "The path ends at a leaf" if tree.branched(each) else "All accepted"
    return _words(f"{passed}: a *bonus* token for free, {word}.", "bonus")


def _word(token_text: str) -> str:
    shown = visible(token_text)
    if len(shown) > LONGEST_WORD:
        shown = shown[: LONGEST_WORD - 1] + "…"
    return f"“{shown}”"


def _words(sentence: str, role: Role = "text") -> tuple[Piece, ...]:
    """Cut a sentence into pieces; what stands between the first two asterisks has the role.

    A token that is itself an asterisk stands inside quotation marks, which keep it whole.
    """
    if not sentence:
        return ()
    before, mark, rest = _split(sentence)
    if not mark:
        return (Piece(sentence, "text"),)
    key, _, after = rest.partition("*")
    pieces = (Piece(before, "text"), Piece(key, role), Piece(after, "text"))
    return tuple(piece for piece in pieces if piece.text)


def _split(sentence: str) -> tuple[str, str, str]:
    """Partition at the first asterisk outside quotation marks."""
    quoted = False
    for index, char in enumerate(sentence):
        if char in "“”":
            quoted = char == "“"
        elif char == "*" and not quoted:
            return sentence[:index], char, sentence[index + 1 :]
    return sentence, "", ""
