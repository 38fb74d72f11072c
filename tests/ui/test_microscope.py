"""The microscope: what it tells, and that it tells nothing before the show does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from show import ScriptedSource, Stage, hand_run

from engine import codec
from engine.trace import EngineState
from scenes import CATALOG
from visualizer import actions as act
from visualizer import microscope
from visualizer.microscope import Specimen, prob, specimen
from visualizer.stage import pick

RUN = hand_run()
LINE = CATALOG[0].timeline(RUN)
Make = Callable[..., Stage]
REJECTING = next(
    each.index for each in RUN.rounds if any(g.verdict == "rejected" for g in each.guesses)
)


def look(index: int, slot: int, t: float) -> Specimen:
    found = specimen(LINE, RUN.header, pick.encode(index, slot), t)
    assert found is not None
    return found


@pytest.mark.parametrize("index", range(len(RUN.rounds)))
def test_nothing_is_told_before_the_show_tells_it(index: int) -> None:
    """A guess is unknown, then proposed, then weighed, then judged; it never goes back."""
    each, spans = RUN.rounds[index], LINE.spans[index]
    order = {"nothing": 0, "drafted": 1, "weighed": 2, "judged": 3}
    for slot in microscope.slots_of(each):
        seen = [order[look(index, slot, t).known] for t in np.linspace(0, LINE.duration, 400)]
        assert seen == sorted(seen)
        assert seen[-1] == 3
    for slot, span in enumerate(spans.verdicts):
        just_before = look(index, slot, span.end - 1e-3)
        assert just_before.known in ("drafted", "weighed")
        words = microscope.verdict(just_before)
        assert "ccepted" not in words
        assert "ejected" not in words
        assert just_before.role == "guess"


def test_a_verdict_states_the_draw_and_what_it_had_to_be_under() -> None:
    for each in RUN.rounds:
        for slot, guess in enumerate(each.guesses):
            words = microscope.verdict(look(each.index, slot, LINE.duration))
            assert guess.verdict in words.lower()
            if guess.draw is not None and 0 < guess.accept_prob < 1:
                assert f"{guess.draw:.3f}" in words
                assert (guess.draw < guess.accept_prob) == (guess.verdict == "accepted")


def test_the_rule_is_shown_with_its_numbers() -> None:
    guess = RUN.rounds[REJECTING].guesses[0]
    odd = replace(guess, target_prob=0.063, draft_prob=0.447, accept_prob=0.141)
    assert microscope.rule(odd) == "min(1, target ÷ draft) = min(1, 0.063 ÷ 0.447) = 0.141"


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0"), (1.0, "1"), (0.5, "0.500"), (0.99991, "0.999…"), (0.00021, "2e-4")],
)
def test_what_only_comes_near_0_or_1_does_not_read_as_it(value: float, words: str) -> None:
    assert prob(value) == words


def test_a_copied_guess_quotes_where_it_came_from() -> None:
    assert RUN.header is not None
    tokens = [*RUN.header.prompt_tokens, *RUN.committed]
    for origin in (0, len(tokens) // 2, len(tokens) - 1):
        quoted = microscope.quotation(LINE, origin)
        assert quoted is not None
        assert quoted.token
    assert microscope.quotation(LINE, len(tokens) + 50) is None


def test_the_arrows_walk_the_whole_story_and_back() -> None:
    last = len(RUN.rounds) - 1
    picked, seen = pick.encode(0, microscope.slots_of(RUN.rounds[0])[0]), []
    for _ in range(200):
        seen.append(picked)
        following = microscope.next_to(LINE, picked, 1, last)
        if following == picked:
            break
        assert microscope.next_to(LINE, following, -1, last) == picked
        picked = following
    things = [pick.encode(r.index, s) for r in RUN.rounds for s in microscope.slots_of(r)]
    assert seen == things


def test_the_arrows_stop_at_the_present_round() -> None:
    end = pick.encode(0, microscope.slots_of(RUN.rounds[0])[-1])
    assert microscope.next_to(LINE, end, 1, last=0) == end


def test_ids_of_nothing_are_nothing() -> None:
    for picked in (0, pick.encode(len(RUN.rounds), 0), pick.encode(0, 17)):
        assert specimen(LINE, RUN.header, picked, 1.0) is None


# --- in the show ---------------------------------------------------------------------------


def paused_at(stage_of: Make, index: int) -> Stage:
    """A recorded run, paused with everything of a round told."""
    stage = stage_of(ScriptedSource(live=False), opening=RUN, size=(640, 480))
    stage.app.handle(act.TogglePlay())
    stage.app.handle(act.Seek(LINE.spans[index].crack.start))
    stage.step(0.5)
    return stage


def test_a_click_on_a_guess_opens_the_drawer_and_esc_shuts_it(stage_of: Make) -> None:
    stage = paused_at(stage_of, REJECTING)
    app = stage.app
    app.handle(act.Select(pick.encode(REJECTING, 0)))
    (x0, _, x1, y1), *_ = app.model().outlines
    app.handle(act.Select(0))
    app.handle(act.ClickAt(((x0 + x1) / 2, y1 - 2)))
    assert app.state.selected == pick.encode(REJECTING, 0)
    free = app.view().free
    stage.step(1.0, frames=3)
    assert "microscope" in stage.overlay.marks
    assert app.view().free[2] < free[2], "the stage makes room: nothing is covered"
    assert app.leave()
    stage.step(1.0, frames=3)
    assert "microscope" not in stage.overlay.marks
    assert app.view().free == free
    assert not app.leave()


def test_every_thing_of_every_round_lays_out(stage_of: Make) -> None:
    stage = paused_at(stage_of, REJECTING)
    stage.app.handle(act.ToggleReduceMotion())
    stage.app.handle(act.Inspect())
    stage.step()  # the drawer is out
    for each in RUN.rounds:
        for moment in ("drops", "close", "verdicts", "settle"):
            span = getattr(LINE.spans[each.index], moment)
            first = span[0] if isinstance(span, tuple) and span else span
            stage.app.handle(act.Seek(first.end if first else 0.0))
            for slot in microscope.slots_of(each):
                stage.app.handle(act.Select(pick.encode(each.index, slot)))
                stage.overlay.frame(stage.app.model(), (640, 480), 1.0, 1 / 60)
                assert "microscope" in stage.overlay.marks


def test_a_new_run_puts_the_microscope_away(stage_of: Make) -> None:
    source = ScriptedSource()
    stage = stage_of(source, opening=RUN)
    stage.app.handle(act.Inspect())
    assert stage.app.state.selected
    source.say(EngineState("ready"), RUN.header, RUN.rounds[0])
    stage.step(0.1, frames=2)
    assert stage.app.state.selected == 0


def test_the_drafter_says_what_kind_it_is() -> None:
    what = look(0, pick.DRAFT, LINE.duration)
    kind = microscope.drafter(what)
    assert kind is not None
    assert kind.name == what.round.settings.drafter
    unknown = replace(what.round, settings=replace(what.round.settings, drafter="somebody"))
    assert microscope.drafter(replace(what, round=unknown)) is None


def test_one_step_for_all_is_a_lookup_only_where_all_was_looked_up() -> None:
    each = next(each for each in RUN.rounds if each.guesses)
    copied = tuple(replace(guess, origin=1) for guess in each.guesses)
    masked = tuple(replace(guess, origin=None, source="mask") for guess in each.guesses)
    assert microscope.at_once(replace(each, guesses=copied)) == "one lookup"
    assert microscope.at_once(replace(each, guesses=masked)) == "one draft pass"


def test_every_written_token_is_found_by_its_position() -> None:
    for each in RUN.rounds:
        for offset, token in enumerate(each.committed):
            picked = microscope.written_at(LINE, each.position + offset)
            named = pick.decode(picked)
            assert named is not None
            there = RUN.rounds[named[0]]
            guess = there.guesses[named[1]] if named[1] < len(there.guesses) else None
            found = guess.token if guess is not None else there.emitted and there.emitted.token
            assert found == token
    assert microscope.written_at(LINE, RUN.rounds[0].position - 1) == 0, "the prompt"
    last = RUN.rounds[-1]
    assert microscope.written_at(LINE, last.position + len(last.committed)) == 0


TREE = codec.read_run(Path(__file__).parents[1] / "data" / "tree.jsonl")
TREE_LINE = CATALOG[0].timeline(TREE)


def tree_look(index: int, slot: int, t: float = 1e9) -> Specimen:
    found = specimen(TREE_LINE, TREE.header, pick.encode(index, slot), t)
    assert found is not None
    return found


def test_a_guess_of_a_tree_knows_its_place_and_its_kin() -> None:
    assert microscope.kinship(tree_look(3, 7)) == (
        "Depth 3 of the tree: sibling 2 of 2, after “waited”."
    )
    assert microscope.kinship(tree_look(3, 2)) == "Depth 2 of the tree: after “↵”."
    assert microscope.kinship(tree_look(2, 1)) == "", "like a chain"
    assert tree_look(3, 7).position == TREE.rounds[3].position + 2
    first, younger = (TREE.rounds[5].guesses[slot] for slot in (0, 3))
    owed = {each.token.text: each.prob for each in younger.target_law.top}
    assert not {" it", " I"} & set(owed), "elder siblings are no longer owed"
    assert {" it", " I"} <= {each.token.text for each in first.target_law.top}


def test_how_sure_the_drafter_was_is_told_once_it_has_guessed() -> None:
    """Of a branch as a whole, too: by that the tree grew, and so thick it is drawn."""
    told = microscope.confidence(tree_look(4, 8))
    assert "own chance of it: 0.625" in told
    assert "whole branch: 0.244" in told, "5/8 three times over"
    early = TREE_LINE.spans[4].drops[8].start - 1e-3
    assert microscope.confidence(tree_look(4, 8, early)) == ""
    assert "branch" not in microscope.confidence(tree_look(2, 1)), "like a chain"
    assert microscope.confidence(look(REJECTING, 0, LINE.duration)) == "", "an older run file"


def test_what_was_never_judged_says_why() -> None:
    assert "a guess before it was rejected" in microscope.verdict(tree_look(3, 2))
    assert "its elder sibling “the” passed" in microscope.verdict(tree_look(4, 1))
    assert "an elder sibling “the” passed" in microscope.verdict(tree_look(4, 6))
    assert "its elder sibling “<|im_end|>” passed" in microscope.verdict(tree_look(6, 5))


def test_a_tree_tells_nothing_before_its_time() -> None:
    spans = TREE_LINE.spans[3]
    for slot in range(8):
        fate = spans.fates[slot]
        assert tree_look(3, slot, fate.end - 1e-6).known != "judged"
        assert tree_look(3, slot, fate.end).known == "judged"
