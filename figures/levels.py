"""Levels over a course of events: parts stacked one on another, and lines that predict them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Course:
    """A level that holds ``y[i]`` from ``x[i]`` on."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Levels:
    """A finished description: ``parts`` from the lowest up, all over the same ``x``.

    ``lines`` are drawn over them; ``phases`` are the ends of the parts of the course, with their
    names.
    """

    parts: tuple[Course, ...]
    lines: tuple[Course, ...]
    phases: tuple[tuple[float, str], ...]
    x_label: str
    y_label: str
