"""Fonts and colours of the panels, set once per scale and theme.

Colours come from the theme table that also paints the blocks (`stage.theme`); here they are
only turned into imgui's sRGB form. Figures are set in Roboto, whose digits are tabular.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from imgui_bundle import imgui

from visualizer.stage.theme import decode
from visualizer.stage.theme import theme as theme_of

Rgba = tuple[float, float, float, float]
FontSize = tuple[float, float]
"""What the width of a text depends on: the font's size, and pixels to the window unit."""

BASE_SIZE = 16.0  # design pixels
SMALL_SIZE = 15.0  # an em of 11.5 pixels in a window 720 pixels high
FIGURE_SIZE = 28.0
SYMBOLS = "DejaVuSans-Bold.ttf"

# Panel, raised, line, dim text.
_DARK = (
    (0.062, 0.072, 0.094),
    (0.137, 0.157, 0.196),
    (0.212, 0.239, 0.290),
    (0.655, 0.690, 0.745),
)
_LIGHT = (
    (0.953, 0.957, 0.965),
    (0.886, 0.898, 0.914),
    (0.769, 0.788, 0.816),
    (0.345, 0.384, 0.435),
)


@dataclass(frozen=True, slots=True)
class Palette:
    """sRGB colours of the panels."""

    panel: Rgba
    raised: Rgba
    line: Rgba
    text: Rgba
    dim: Rgba
    accent: Rgba
    warning: Rgba


class Style:
    """The look of one imgui context. `apply` before each frame; cheap when nothing changed."""

    def __init__(self, fonts: Path) -> None:
        self.regular = _font(fonts / "Roboto-Regular.ttf", fonts / SYMBOLS)
        self.bold = _font(fonts / "Roboto-Bold.ttf", fonts / SYMBOLS)
        self._applied: tuple[float, str] | None = None
        self.size: FontSize = (1.0, 1.0)
        self.unit = 1.0
        self.palette = palette_of("dark")
        self.theme = "dark"

    def apply(self, unit: float, theme: str, density: float = 1.0) -> None:
        """Set sizes and colours for `unit` window units per design pixel.

        `density` is framebuffer pixels to the window unit: letters are as wide as their pixels.
        """
        self.size = (unit, density)
        if self._applied == (unit, theme):
            return
        self._applied = (unit, theme)
        self.unit, self.theme, self.palette = unit, theme, palette_of(theme)
        _set_sizes(unit)
        _set_colors(self.palette)

    def role(self, role: str, opacity: float = 1.0) -> Rgba:
        """The colour of a role of the picture language (guess, committed, …)."""
        return (*theme_of(self.theme).srgb(role), opacity)

    def ink(self, role: str) -> Rgba:
        """The colour of a role for words on a panel: as much towards the text's as they need."""
        return ink(self.theme, role)

    def push(self, size: float, bold: bool = False) -> None:
        """Use a font of `size` design pixels until `imgui.pop_font`."""
        imgui.push_font(self.bold if bold else self.regular, size * self.unit)


def _font(main: Path, symbols: Path) -> imgui.ImFont:
    """A font that takes what `main` lacks (arrows, emblems) from `symbols`."""
    atlas = imgui.get_io().fonts
    config = imgui.ImFontConfig()
    config.oversample_h = 3  # small text keeps its letter spacing
    font = atlas.add_font_from_file_ttf(str(main), BASE_SIZE, config)
    merged = imgui.ImFontConfig()
    merged.merge_mode = True
    atlas.add_font_from_file_ttf(str(symbols), BASE_SIZE, merged)
    return font


def palette_of(theme: str) -> Palette:
    """Panel colours that go with a theme's stage: dark panels where its text is light."""
    table = theme_of(theme)
    text = table.srgb("text")
    surfaces = _DARK if text[1] > 0.5 else _LIGHT
    panel, raised, line, dim = ((*color, 1.0) for color in surfaces)
    return Palette(
        panel=panel,
        raised=raised,
        line=line,
        text=(*text, 1.0),
        dim=dim,
        accent=(*table.srgb("guess"), 1.0),
        warning=(*table.srgb("warning"), 1.0),
    )


READABLE = 4.5
"""Contrast of words with their panel, as WCAG counts it."""


@cache
def ink(theme: str, role: str) -> Rgba:
    """A role's colour, moved towards the text's until words in it can be read on a panel."""
    palette = palette_of(theme)
    color: Rgba = (*theme_of(theme).srgb(role), 1.0)
    steps = (mixed(color, palette.text, 0.05 * step) for step in range(21))
    return next((each for each in steps if contrast(each, palette.panel) >= READABLE), palette.text)


def contrast(one: Rgba, other: Rgba) -> float:
    """How many times brighter the brighter of two colours is, from 1 to 21 (WCAG)."""
    low, high = sorted(
        0.2126 * decode(each[0]) + 0.7152 * decode(each[1]) + 0.0722 * decode(each[2]) + 0.05
        for each in (one, other)
    )
    return high / low


@lru_cache(maxsize=1024)
def mixed(a: Rgba, b: Rgba, share: float) -> Rgba:
    """`share` of the way from `a` to `b`."""
    r, g, b_, alpha = (x + (y - x) * share for x, y in zip(a, b, strict=True))
    return (r, g, b_, alpha)


def faded(color: Rgba, strength: float) -> Rgba:
    """`color` with its opacity times `strength`."""
    return (*color[:3], color[3] * strength)


def _set_sizes(unit: float) -> None:
    style = imgui.get_style()
    style.font_size_base = BASE_SIZE * unit
    style.window_padding = imgui.ImVec2(14 * unit, 12 * unit)
    style.frame_padding = imgui.ImVec2(9 * unit, 5 * unit)
    style.item_spacing = imgui.ImVec2(8 * unit, 6 * unit)
    style.item_inner_spacing = imgui.ImVec2(6 * unit, 4 * unit)
    style.frame_rounding = 5 * unit
    style.grab_rounding = 5 * unit
    style.popup_rounding = 6 * unit
    style.child_rounding = 6 * unit
    style.window_rounding = 0.0
    style.window_border_size = 0.0
    style.child_border_size = 1.0
    style.popup_border_size = 1.0
    style.grab_min_size = 14 * unit
    style.scrollbar_size = 9 * unit
    style.window_min_size = imgui.ImVec2(1, 1)
    style.disabled_alpha = 0.75  # a recording's settings are there to be read


def _set_colors(palette: Palette) -> None:
    style, col = imgui.get_style(), imgui.Col_
    raised, accent = palette.raised, palette.accent
    table: dict[imgui.Col_, Rgba] = {
        col.text: palette.text,
        col.text_disabled: palette.dim,
        col.window_bg: palette.panel,
        col.child_bg: (0, 0, 0, 0),
        col.popup_bg: (*palette.panel[:3], 0.98),
        col.border: palette.line,
        col.frame_bg: raised,
        col.frame_bg_hovered: mixed(raised, accent, 0.12),
        col.frame_bg_active: mixed(raised, accent, 0.2),
        col.slider_grab: accent,
        col.slider_grab_active: mixed(accent, palette.text, 0.4),
        col.button: mixed(raised, palette.line, 0.4),
        col.button_hovered: mixed(raised, accent, 0.3),
        col.button_active: mixed(raised, accent, 0.5),
        col.header: mixed(raised, accent, 0.25),
        col.header_hovered: mixed(raised, accent, 0.35),
        col.header_active: mixed(raised, accent, 0.45),
        col.check_mark: accent,
        col.separator: palette.line,
        col.scrollbar_bg: (0, 0, 0, 0),
        col.scrollbar_grab: palette.line,
        col.plot_histogram: accent,
        col.text_selected_bg: (*accent[:3], 0.35),
        col.nav_cursor: accent,
        col.table_header_bg: raised,
        col.table_border_strong: palette.line,
        col.table_border_light: palette.line,
        col.table_row_bg: (0, 0, 0, 0),
        col.table_row_bg_alt: (*raised[:3], 0.5),
    }
    for key, color in table.items():
        style.set_color_(key, imgui.ImVec4(*color))
