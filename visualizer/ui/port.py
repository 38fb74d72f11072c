"""The imgui side of the input: neutral events into `imgui.IO`, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from imgui_bundle import imgui

from visualizer.input import Modifiers
from visualizer.ui.layout import Rect

_NAMES = {
    "tab": "tab",
    "backspace": "backspace",
    "return": "enter",
    "escape": "escape",
    "delete": "delete",
    "insert": "insert",
    "space": "space",
    "left": "left_arrow",
    "right": "right_arrow",
    "up": "up_arrow",
    "down": "down_arrow",
    "home": "home",
    "end": "end",
    "page_up": "page_up",
    "page_down": "page_down",
}
_KEYS: dict[str, imgui.Key] = {ours: getattr(imgui.Key, its) for ours, its in _NAMES.items()}
_KEYS |= {letter: getattr(imgui.Key, letter) for letter in "abcdefghijklmnopqrstuvwxyz"}
_KEYS |= {digit: getattr(imgui.Key, f"_{digit}") for digit in "0123456789"}
_WRITING = frozenset(name for name in _KEYS if len(name) == 1) | {"space"}
"""Keys that only write a character when no other key is held with them."""

_NO_MOUSE = -3.4028234663852886e38
"""imgui's own value for "no mouse here": minus the largest single-precision number."""


class ImguiPort:
    """Feeds one imgui context. Buttons go through only on real presses and releases."""

    def __init__(self) -> None:
        self._io = imgui.get_io()
        self._panels: tuple[Rect, ...] = ()
        self._grasping = self._listing = False
        self._panel: str | None = None
        self._held = Modifiers()

    def set_panels(
        self, panels: Sequence[Rect], grasping: bool = False, listing: bool = False
    ) -> None:
        """The rectangles panels cover this frame.

        `grasping` while a control is held, `listing` while a list is open.

        imgui itself knows what lies under the pointer only after its next frame; a press may
        come in the same frame as the move that brought the pointer there.
        """
        self._panels, self._grasping, self._listing = tuple(panels), grasping, listing

    def wants_mouse(self, x: float, y: float) -> bool:
        return (
            self._grasping
            or self._listing
            or any(
                panel.x <= x < panel.right and panel.y <= y < panel.bottom for panel in self._panels
            )
        )

    @property
    def wants_text(self) -> bool:
        return bool(self._io.want_text_input)

    @property
    def wants_keys(self) -> bool:
        """The keyboard moves among the controls."""
        return bool(self._io.config_flags & imgui.ConfigFlags_.nav_enable_keyboard)

    @property
    def wants_escape(self) -> bool:
        """A list is open, and Esc shuts it."""
        return self._listing

    def move_by_keys(self, panel: str | None) -> None:
        """Let arrows, Tab and Enter move among the controls of a panel; None: not at all."""
        if panel == self._panel:
            return
        self._panel = panel
        if panel is None:
            self._io.config_flags &= ~imgui.ConfigFlags_.nav_enable_keyboard
            imgui.set_window_focus(None)
        else:
            self._io.config_flags |= imgui.ConfigFlags_.nav_enable_keyboard
            imgui.set_window_focus(panel)
            imgui.set_nav_cursor_visible(True)

    def mouse_at(self, position: tuple[float, float] | None) -> None:
        if position is None:
            self._io.add_mouse_pos_event(_NO_MOUSE, _NO_MOUSE)
        else:
            self._io.add_mouse_pos_event(*position)

    def mouse_button(self, button: int, down: bool) -> None:
        self._io.add_mouse_button_event(button, down)

    def wheel(self, x: float, y: float) -> None:
        self._io.add_mouse_wheel_event(x, y)

    def key(self, name: str, down: bool) -> None:
        """Pass a key on, but not one that merely writes into the text box that has the focus.

        Its character comes by `text`. imgui takes in one press and release of a key a frame:
        with the keys among the characters, fast typing would lag behind by seconds.
        """
        chord = self._held.ctrl or self._held.alt or self._held.super
        if down and name in _WRITING and not chord and self.wants_text:
            return
        if name in _KEYS:
            self._io.add_key_event(_KEYS[name], down)

    def modifiers(self, held: Modifiers) -> None:
        self._held = held
        self._io.add_key_event(imgui.Key.mod_ctrl, held.ctrl)
        self._io.add_key_event(imgui.Key.mod_shift, held.shift)
        self._io.add_key_event(imgui.Key.mod_alt, held.alt)
        self._io.add_key_event(imgui.Key.mod_super, held.super)

    def text(self, characters: str) -> None:
        for character in characters:
            self._io.add_input_character(ord(character))

    def focus(self, focused: bool) -> None:
        self._io.add_focus_event(focused)


def set_clipboard(read: Callable[[], str], write: Callable[[str], None]) -> None:
    """Give imgui the window's clipboard."""
    platform = imgui.get_platform_io()
    platform.platform_get_clipboard_text_fn = lambda _context: read()
    platform.platform_set_clipboard_text_fn = lambda _context, text: write(text)
