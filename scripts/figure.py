#!/usr/bin/env python3
"""Draws the figures of docs/figures from the rows beside them, each for light and dark pages.

store-reads: reads of the store, by what stands in front of it (the README's picture)
speed-under-attack: negative query time against the rate that an attacker keeps up
"""

import csv
import math
import pathlib

FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "figures"
COLOURS = {
    "light": {"text": "#1f2328", "small": "#59636e", "grid": "#d1d9e0", "page": "#ffffff",
              "static": "#8c959f", "adaptive": "#0969da", "ours": "#d1242f"},
    "dark": {"text": "#e6edf3", "small": "#9198a1", "grid": "#3d444d", "page": "#0d1117",
             "static": "#8c959f", "adaptive": "#4493f8", "ours": "#ff7b72"},
}


def rows_of(name):
    with open(FOLDER / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def save(name, width, height, label, draw):
    """Writes NAME-light.svg and NAME-dark.svg."""
    for theme, colour in COLOURS.items():
        style = (
            f"text{{font:14px system-ui,sans-serif;fill:{colour['text']}}}"
            f".small{{font-size:12px;fill:{colour['small']}}}"
            ".title{font-size:16px;font-weight:600}"
            f".grid{{stroke:{colour['grid']}}}"
            f".static{{fill:{colour['static']}}}.adaptive{{fill:{colour['adaptive']}}}"
            f".ours{{fill:{colour['ours']}}}text.ours{{font-weight:600}}"
        )
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
            f' aria-label="{label}">',
            f"<style>{style}</style>",
            f'<rect width="{width}" height="{height}" fill="{colour["page"]}"/>',
            *draw(),
            "</svg>",
        ]
        (FOLDER / f"{name}-{theme}.svg").write_text("\n".join(out) + "\n")


def text(x, y, words, kind="", anchor="start", more=""):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{words}</text>'


def store_reads():
    """Two panels of bars: an attack of repeats, and a recorded stream."""
    rows = rows_of("store-reads")
    fronts = [
        ("no filter", "no filter", "static"),
        ("fjall's own filters", "fjall's own filters *", "static"),
        ("fastbloom", "fastbloom", "static"),
        ("fastbloom and moka", "fastbloom + moka", "static"),
        ("twiceshy", "twiceshy", "ours"),
    ]
    panels = [("attack", "An attacker repeats what was slow"), ("orm_busy", "A recorded stream")]
    width, left, bar, gap = 880, 206, 20, 8
    panel = (width - left - 24) / 2 - 76
    top, height = 66, 66 + 5 * 28 + 34

    def draw():
        yield text(12, 26, "Reads of the store for keys that it does not have", "title")
        for number, (stream, title) in enumerate(panels):
            found = {row["front"]: row for row in rows if row["stream"] == stream}
            lookups = int(found["no filter"]["lookups"])
            at = left + number * (panel + 94)
            yield text(at, 50, f"{title}: {lookups:,} lookups", "small")
            for place, (front, name, kind) in enumerate(fronts):
                reads = int(found[front]["reads"])
                # Bars are logarithmic from one read to twice the lookups.
                length = panel * math.log(max(reads, 1)) / math.log(2 * lookups)
                y = top + place * (bar + gap)
                if number == 0:
                    yield text(left - 10, y + 15, name, kind if kind == "ours" else "", "end")
                yield f'<rect class="{kind}" x="{at:.1f}" y="{y}" width="{length:.1f}" height="{bar}" rx="2"/>'
                yield text(at + length + 6, y + 15, f"{reads:,}", kind if kind == "ours" else "")
        yield text(
            12, height - 12,
            "Equal memory (12 bits per key), logarithmic bars. moka: a cache of misses. * up to two blocks per false positive",
            "small",
        )

    save("store-reads", width, height, "Reads of the store, by what stands in front of it", draw)


def speed_under_attack():
    rows = rows_of("speed-under-attack")
    width, height = 860, 470
    left, right, top, bottom = 92, 24, 50, 64
    least_rate, most_rate = 1e-5, 1.0
    times = [float(row["time"]) for row in rows]
    low, high = math.log(min(times) * 0.85), math.log(max(times) * 1.3)

    def x(time):
        return left + (math.log(time) - low) / (high - low) * (width - left - right)

    def y(rate):
        share = math.log(max(rate, least_rate) / least_rate) / math.log(most_rate / least_rate)
        return height - bottom - share * (height - top - bottom)

    def draw():
        yield text(left, 24, "How fast, and how wrong under attack (lower left is better)", "title")
        for power in range(-5, 1):
            at = y(10.0**power)
            name = {0: "100 %", -1: "10 %", -2: "1 %"}.get(power, f"{10.0 ** (power + 2):g} %")
            yield f'<path class="grid" d="M{left} {at:.1f}H{width - right}"/>'
            yield text(left - 8, at + 4, name, "small", "end")
        for time in (0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8):
            if low < math.log(time) < high:
                yield f'<path class="grid" d="M{x(time):.1f} {top}V{height - bottom}"/>'
                yield text(x(time), height - bottom + 18, f"{time:g}", "small", "middle")
        yield text(
            (left + width - right) / 2, height - 14,
            "time of a negative query, as a multiple of a plain cuckoo filter's", "", "middle",
        )
        middle = (top + height - bottom) / 2
        turned = f' transform="rotate(-90 20 {middle})"'
        yield text(20, middle, "false positives in the last round", "", "middle", turned)
        for row in rows:
            px, py = x(float(row["time"])), y(float(row["rate"]))
            dx, dy, anchor = {
                "right": (10, 5, "start"),
                "left": (-10, 5, "end"),
                "above": (0, -11, "middle"),
                "below": (0, 21, "middle"),
            }[row["label"]]
            yield f'<circle class="{row["kind"]}" cx="{px:.1f}" cy="{py:.1f}" r="6"/>'
            kind = row["kind"] if row["kind"] == "ours" else ""
            yield text(px + dx, py + dy, row["filter"], kind, anchor)

    label = "Negative query time against the false-positive rate that an attacker keeps up"
    save("speed-under-attack", width, height, label, draw)


if __name__ == "__main__":
    store_reads()
    speed_under_attack()
