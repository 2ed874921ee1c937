#!/usr/bin/env python3
"""Draws docs/figures/speed-under-attack.svg from the rows beside it.

Negative query time against the rate that an attacker keeps up. The picture follows the reader's
light or dark theme.
"""

import csv
import math
import pathlib

FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "figures"
WIDTH, HEIGHT = 860, 470
LEFT, RIGHT, TOP, BOTTOM = 92, 24, 50, 64
LEAST_RATE, MOST_RATE = 1e-5, 1.0
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #59636e }
.title { font-size: 16px; font-weight: 600 }
.grid { stroke: #d1d9e0 }
.static { fill: #8c959f } .adaptive { fill: #0969da } .ours { fill: #d1242f }
text.ours { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #3d444d }
  .adaptive { fill: #4493f8 } .ours { fill: #ff7b72 }
}"""


def main():
    with open(FOLDER / "speed-under-attack.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    fastest = min(float(row["time"]) for row in rows)
    slowest = max(float(row["time"]) for row in rows)
    low, high = math.log(fastest * 0.85), math.log(slowest * 1.3)

    def x(time):
        return LEFT + (math.log(time) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(rate):
        share = math.log(max(rate, LEAST_RATE) / LEAST_RATE) / math.log(MOST_RATE / LEAST_RATE)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' aria-label="Negative query time against the false-positive rate that an attacker keeps'
        ' up">',
        f"<style>{STYLE}\n</style>",
        f'<text class="title" x="{LEFT}" y="24">How fast, and how wrong under attack '
        "(lower left is better)</text>",
    ]
    for power in range(-5, 1):
        at = y(10.0**power)
        name = {0: "100 %", -1: "10 %", -2: "1 %"}.get(power, f"{10.0 ** (power + 2):g} %")
        out.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'<text class="small" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{name}</text>')
    for time in (0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8):
        if low < math.log(time) < high:
            out.append(f'<path class="grid" d="M{x(time):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
            out.append(
                f'<text class="small" x="{x(time):.1f}" y="{HEIGHT - BOTTOM + 18}"'
                f' text-anchor="middle">{time:g}</text>'
            )
    out.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">'
        "time of a negative query, as a multiple of a plain cuckoo filter's</text>"
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(
        f'<text x="20" y="{middle}" text-anchor="middle" transform="rotate(-90 20 {middle})">'
        "false positives in the last round</text>"
    )
    for row in rows:
        px, py = x(float(row["time"])), y(float(row["rate"]))
        dx, dy, anchor = {
            "right": (10, 5, "start"),
            "left": (-10, 5, "end"),
            "above": (0, -11, "middle"),
            "below": (0, 21, "middle"),
        }[row["label"]]
        out.append(f'<circle class="{row["kind"]}" cx="{px:.1f}" cy="{py:.1f}" r="6"/>')
        out.append(
            f'<text class="{row["kind"] if row["kind"] == "ours" else ""}" x="{px + dx:.1f}"'
            f' y="{py + dy:.1f}" text-anchor="{anchor}">{row["filter"]}</text>'
        )
    (FOLDER / "speed-under-attack.svg").write_text("\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
