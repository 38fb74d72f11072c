"""Lessons. A scene turns a run into a timeline, and a moment of it into a picture.

Scenes are pure: the same trace, time and view give the same frame, in any order, with no
memory of an earlier one. They know the trace and the stage, never GL, a clock or a model.
"""
