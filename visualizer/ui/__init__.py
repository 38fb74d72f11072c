"""The panels: imgui lives here and nowhere else. They read a `UiModel` and return actions."""
