"""What a show begins with: its scene, its first state and run, and the stage before any run."""

from __future__ import annotations

from collections.abc import Iterable

from engine.requests import Start
from engine.stats import Stats
from visualizer.config import ShowOptions
from visualizer.errors import NeverDone
from visualizer.stage.frame import Camera, Frame
from visualizer.stage.hud import Hud
from visualizer.stage.scene import Scene
from visualizer.stage.theme import theme as theme_of
from visualizer.stage.view import View
from visualizer.state import PromptDraft, ViewState


def first_state(options: ShowOptions) -> ViewState:
    draft = PromptDraft()
    if options.prompts:
        draft = PromptDraft(options.prompts[0].text, options.prompts[0].chat, 0)
    return ViewState(
        preset=options.preset,
        theme=options.theme,
        ui_scale=options.ui_scale,
        ui_visible=options.ui_visible,
        reduce_motion=options.reduce_motion,
        settings=options.settings,
        prompt=draft,
    )


def empty_stage(view: View) -> Frame:
    """Before any run: the stage alone."""
    camera = Camera((0.0, 6.0, 14.0), (0.0, 1.0, 0.0), 0.55, 0.5, 120.0, view.free)
    return Frame(camera, theme_of(view.theme).lighting, (0.0, 0.5, 0.0), 6.0)


def nothing_to_tell() -> Hud:
    """What the panels show before any run."""
    return Hud(
        phase="approach",
        round_index=-1,
        shown=0,
        settings=None,
        rounds=(),
        stats=Stats.of(()),
        histogram=(),
        ghost=(),
        prompt="",
        committed=(),
        pending=(),
        caption=(),
        compute_seconds=0.0,
        slowdown=0.0,
        end=None,
    )


def scene_named(catalog: Iterable[Scene], slug: str) -> Scene:
    """The scene of that name. Raises NeverDone naming those there are."""
    scenes = {scene.slug: scene for scene in catalog}
    if slug not in scenes:
        raise NeverDone(f"There is no scene {slug!r}; there is: {', '.join(scenes)}.")
    return scenes[slug]


def request_of(state: ViewState, options: ShowOptions) -> Start:
    """The run that the prompt box and the settings ask for."""
    draft, prompts, tokens = state.prompt, options.prompts, options.max_new_tokens
    if draft.curated is not None and draft.curated < len(prompts):
        tokens = min(tokens, prompts[draft.curated].max_new_tokens)
    # A curated prompt is there to show how guessing goes, not how a reply is repeated.
    remember = options.remember and state.remember and draft.curated is None
    return Start(draft.text, draft.chat, state.settings, options.seed, tokens, remember=remember)


def opening_request(options: ShowOptions) -> Start | None:
    """The first live run of a show: its first curated prompt, if there is one."""
    if not options.prompts:
        return None
    first = options.prompts[0]
    tokens = min(options.max_new_tokens, first.max_new_tokens)
    return Start(first.text, first.chat, options.settings, options.seed, tokens)
