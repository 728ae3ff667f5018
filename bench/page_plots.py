# SPDX-License-Identifier: MIT
"""Plots as plain SVG: one line chart on logarithmic axes, one chart of grouped bars."""

import math
from html import escape

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 70, 56
INK, FAINT, GROUND = '#30363d', '#d0d7de', '#ffffff'
COLOURS = {
    'bf16': '#6e5494', 'fp16': '#a371c9', 'fp8': '#1f6fc4', 'fp8+nvfp4': '#0f9d8a',
    'nvfp4': '#e07b00', 'cudnn': '#57606a', 'flash': '#8c959f', 'fa2': '#b6bec7',
    'fa3': '#424a53', 'xqa': '#a0a8b0', 'xqa_fp8': '#c9d1d9', 'fa2_fp8': '#d8dee4',
}


def colour(name):
    return COLOURS.get(name, '#8c959f')


def number(value):
    """Short and without an exponent: 0.50, 12.3, 480, 1,536."""
    if value >= 100:
        return f'{value:,.0f}'
    return f'{value:.{1 if value >= 10 else 2}f}'


def tokens(value):
    """1024 is 1k, 1048576 is 1M."""
    if value >= 1 << 20:
        return f'{value >> 20}M'
    return f'{value >> 10}k' if value >= 1024 else str(value)


class Drawing:
    def __init__(self, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
            f'<title>{escape(title)}</title>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>',
        ]
        self.text(LEFT, 20, title, size=14, weight=600)

    def text(self, x, y, text, anchor='start', size=12, weight=400):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'font-weight="{weight}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, stroke=FAINT, width=1):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{stroke}" stroke-width="{width}"/>')

    def bar(self, x, y, width, height, fill, what):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                          f'fill="{fill}"><title>{escape(what)}</title></rect>')

    def path(self, points, stroke):
        places = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        self.parts.append(f'<polyline points="{places}" fill="none" stroke="{stroke}" '
                          f'stroke-width="2"/>')

    def dot(self, x, y, fill, what):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}">'
                          f'<title>{escape(what)}</title></circle>')

    def legend(self, names):
        x = LEFT
        for name in names:
            self.bar(x, 34, 10, 10, colour(name), name)
            self.text(x + 14, 43, name)
            x += 30 + 7.2 * len(name)

    def svg(self):
        return '\n'.join(self.parts + ['</svg>']) + '\n'


def powers(low, high, base):
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    return [base ** i for i in range(first, last + 1)]


def lines(title, x_title, y_title, series):
    """`series`: {name: [(x, y)]}; x in powers of two, y in powers of ten, both logarithmic."""
    drawing = Drawing(f'{title}: {y_title}')
    drawing.legend(series)
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = [y for points in series.values() for _, y in points]
    y_marks = powers(min(ys), max(ys), 10)
    x_low, x_high = math.log2(xs[0]), math.log2(xs[-1])
    y_low, y_high = math.log10(y_marks[0]), math.log10(y_marks[-1])

    def place(x, y):
        across = (math.log2(x) - x_low) / max(x_high - x_low, 1e-9)
        up = (math.log10(y) - y_low) / max(y_high - y_low, 1e-9)
        return (LEFT + across * (WIDTH - LEFT - RIGHT - 24),
                HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))

    for mark in y_marks:
        y = place(xs[0], mark)[1]
        drawing.line(LEFT, y, WIDTH - RIGHT, y)
        drawing.text(LEFT - 6, y + 4, f'{mark:g}', 'end')
    for x in xs:
        drawing.text(place(x, y_marks[0])[0], HEIGHT - BOTTOM + 18, tokens(x), 'middle')
    for name, points in series.items():
        drawing.path([place(x, y) for x, y in sorted(points)], colour(name))
        for x, y in points:
            drawing.dot(*place(x, y), colour(name), f'{name}, {tokens(x)}: {number(y)}')
    drawing.text((LEFT + WIDTH) / 2, HEIGHT - 12, x_title, 'middle')
    return drawing.svg()


def bars(title, y_title, groups, limit=None):
    """`groups`: {group: {name: value}}; `limit`: the axis ends there, else above the highest."""
    drawing = Drawing(f'{title}: {y_title}')
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    drawing.legend(names)
    highest = max(value for values in groups.values() for value in values.values())
    top = max(limit or 0, highest * 1.08)
    step = 10 ** math.floor(math.log10(top / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 6)

    def height(value):
        return value / top * (HEIGHT - TOP - BOTTOM)

    for i in range(int(top / step) + 1):
        y = HEIGHT - BOTTOM - height(i * step)
        drawing.line(LEFT, y, WIDTH - RIGHT, y)
        drawing.text(LEFT - 6, y + 4, f'{i * step:g}', 'end')
    group_width = (WIDTH - LEFT - RIGHT) / len(groups)
    bar_width = min(group_width * 0.86 / len(names), 34)
    for i, (group, values) in enumerate(groups.items()):
        middle = LEFT + (i + 0.5) * group_width
        x = middle - bar_width * len(values) / 2
        for name, value in values.items():
            top_y = HEIGHT - BOTTOM - height(value)
            drawing.bar(x, top_y, bar_width - 2, height(value), colour(name),
                        f'{group}, {name}: {number(value)}')
            if bar_width >= 22:
                drawing.text(x + bar_width / 2 - 1, top_y - 4, number(value), 'middle', size=10)
            x += bar_width
        drawing.text(middle, HEIGHT - BOTTOM + 18, group, 'middle')
    return drawing.svg()
