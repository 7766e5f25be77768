"""Draw the rooms of the package and the imports between them, as docs/figures/rooms.png.

    python docs/draw_rooms.py [CHECKOUT [PICTURE]]

A room is a folder of the package, or a module of its root. An arrow leads from a room to one that
it imports. Everything is read from the source, so that another checkout can be drawn as well.
"""

import ast
import graphlib
import itertools
import statistics
import sys
from pathlib import Path

PACKAGE = "numpyro_contour"
HERE = Path(__file__).resolve().parent
GAP, BOX, FLOOR = 0.22, 0.52, 1.0  # inches: between boxes, height of a box, from floor to floor
INK, PALE, WRONG = "#33415c", "#b9c3d6", "#d1495b"


def room_of(file, root):
    """The folder of a file, or its own name where it is in the root."""
    parts = file.relative_to(root).with_suffix("").parts
    if len(parts) == 1:
        return PACKAGE if parts[0] == "__init__" else parts[0]
    return "/".join(parts[:-1])


def imported(file):
    """The dotted names that a file imports, with the names inside a module."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read(checkout):
    """The files of each room, and the arrows as pairs of rooms."""
    root = Path(checkout).resolve() / PACKAGE
    files = {}
    for file in sorted(root.rglob("*.py")):
        files.setdefault(room_of(file, root), []).append(file)
    # A folder that only holds rooms is not a room itself.
    files = {room: found for room, found in files.items() if has_code(room, found)}
    arrows = set()
    for room, found in files.items():
        for name in itertools.chain.from_iterable(map(imported, found)):
            package, *parts = name.split(".")
            if package == PACKAGE:
                ends = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
                arrows.add((room, next((end for end in ends if end in files), PACKAGE)))
    return files, {(room, other) for room, other in arrows if room != other}


def has_code(room, files):
    """Whether a room holds more than its docstring."""
    return len(files) > 1 or "/" in room or len(ast.parse(files[0].read_text()).body) > 1


def upward(rooms, arrows):
    """The arrows that no order of the rooms turns downwards: few, found by moving single rooms."""
    below = {room: [other for start, other in arrows if start == room] for room in rooms}
    try:
        graphlib.TopologicalSorter(below).prepare()
        return set()
    except graphlib.CycleError:
        pass
    order = sorted(rooms, key=lambda room: sum(start == room for start, _ in arrows))

    def wrong(order):
        height = {room: i for i, room in enumerate(order)}
        return {(a, b) for a, b in arrows if height[a] < height[b]}

    best = wrong(order)
    improved = True
    while improved:
        improved = False
        for room, place in itertools.product(rooms, range(len(order))):
            trial = [other for other in order if other != room]
            trial.insert(place, room)
            found = wrong(trial)
            if len(found) < len(best):
                order, best, improved = trial, found, True
    return best


def floors_of(rooms, arrows):
    """The floor of each room: below the rooms that import it, the ground where it imports none."""
    below = {room: {b for a, b in arrows if a == room} for room in rooms}
    above = {room: {a for a, b in arrows if b == room} for room in rooms}

    def depth(room, of, known):
        if room not in known:
            known[room] = 1 + max((depth(other, of, known) for other in of[room]), default=-1)
        return known[room]

    heights, depths = {}, {}
    top = max(depth(room, below, heights) for room in rooms)
    return {r: top - depth(r, above, depths) if below[r] else 0 for r in rooms}


def direct(arrows):
    """The arrows that no path through other rooms stands for."""
    below = {}
    for a, b in arrows:
        below.setdefault(a, set()).add(b)

    def reached(room):
        return set().union(*({b} | reached(b) for b in below.get(room, ())))

    indirect = {room: set().union(*map(reached, ends)) for room, ends in below.items()}
    return {(a, b) for a, b in arrows if b not in indirect[a]}


def width_of(room, label):
    """Inches that a box needs for its two lines."""
    return max(0.098 * len(room), 0.07 * len(label)) + 0.2


def placed(rows, widths, total):
    """The centre of each room, with the rooms of a floor spread over the width."""
    centre = {}
    for row in rows:
        space = (total - sum(widths[room] for room in row)) / (len(row) + 1)
        left = space
        for room in row:
            centre[room] = left + widths[room] / 2
            left += widths[room] + space
    return centre


def clutter(centre, floor, widths, arrows):
    """How many arrows cross, how many go behind a box, and how far all go sideways."""
    lines = [(floor[a], centre[a], floor[b], centre[b]) for a, b in arrows]
    cost = sum(0.1 * abs(x - y) for _, x, _, y in lines)
    for high, x, low, y in lines:
        for room, at in centre.items():
            if low < floor[room] < high:
                passes = y + (x - y) * (floor[room] - low) / (high - low)
                cost += 2 * (abs(passes - at) < widths[room] / 2 + 0.05)
    for (top, x, low, y), (high, v, bottom, w) in itertools.combinations(lines, 2):
        ends = min(top, high), max(low, bottom)
        if ends[0] > ends[1]:
            first, second = (
                y
                + (x - y) * (end - low) / (top - low)
                - w
                - (v - w) * (end - bottom) / (high - bottom)
                for end in ends
            )
            cost += first * second < -1e-9
    return cost


def arranged(floor, widths, arrows, total):
    """Centres of the rooms after swapping neighbours while that makes fewer arrows cross."""
    rows = [
        sorted(r for r in floor if floor[r] == level) for level in range(max(floor.values()) + 1)
    ]
    centre = placed(rows, widths, total)
    best = clutter(centre, floor, widths, arrows)
    improved = True
    while improved:
        improved = False
        for row in rows:
            for i, j in itertools.combinations(range(len(row)), 2):
                row[i], row[j] = row[j], row[i]
                trial = placed(rows, widths, total)
                cost = clutter(trial, floor, widths, arrows)
                if cost < best - 1e-9:
                    centre, best, improved = trial, cost, True
                else:
                    row[i], row[j] = row[j], row[i]
    return centre


def size_of(files):
    """The second line of a box: its modules, and its lines to the nearest hundred."""
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    modules = [file for file in files if file.name != "__init__.py"] or files
    rounded = f"{round(lines, -2):,} lines" if lines >= 100 else "under 100 lines"
    return rounded if len(modules) == 1 else f"{len(modules)} modules, {rounded}"


def way(start, end, row_of, total):
    """Points of an arrow: near the straight line, between the boxes of the floors it passes."""
    (x, y), (v, w) = start, end
    points = [start]
    for level in range(int(y // FLOOR), round((w - BOX / 2) / FLOOR), -1):
        free = [(0.05, total - 0.05)]
        for left, right in row_of[level]:
            free = [
                part
                for a, b in free
                for part in ((a, min(b, left - 0.07)), (max(a, right + 0.07), b))
                if part[0] < part[1]
            ]
        at = v + (x - v) * (level * FLOOR - w) / (y - w)
        clear = min((min(max(at, a), b) for a, b in free), key=lambda place: abs(place - at))
        points += [(clear, level * FLOOR + BOX / 2), (clear, level * FLOOR - BOX / 2)]
    return [*points, end]


def arrow(ax, points, colour, width, zorder):
    """An arrow through points, that leaves and enters each of them vertically."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    through, codes = [points[0]], [Curve.MOVETO]
    for (x, y), (v, w) in itertools.pairwise(points):
        bend = 0.45 * (y - w) if y > w else -FLOOR
        through += [(x, y - bend), (v, w + bend), (v, w)]
        codes += [Curve.CURVE4] * 3
    style = "-|>,head_length=4,head_width=2"
    ax.add_patch(
        FancyArrowPatch(
            path=Curve(through, codes), arrowstyle=style, color=colour, lw=width, zorder=zorder
        )
    )


def draw(files, arrows, wrong, picture, words):
    """The figure: boxes by floor, the direct arrows dark, those that a path stands for pale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    floor = floors_of(files, arrows - wrong)
    label = {room: size_of(found) for room, found in files.items()}
    widths = {room: width_of(room, label[room]) for room in files}
    by_floor = [[r for r in files if floor[r] == level] for level in set(floor.values())]
    total = max(sum(widths[room] + GAP for room in row) for row in by_floor) + 3 * GAP
    dark = direct(arrows - wrong)
    centre = arranged(floor, widths, dark, total)

    height = FLOOR * len(by_floor) + 0.25
    figure = plt.figure(figsize=(total, height), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, total), ylim=(-0.62, height - 0.62))
    ax.set_axis_off()
    shades = matplotlib.colormaps["YlGnBu"]
    for level in range(0, len(by_floor), 2):
        ax.axhspan((level - 0.5) * FLOOR, (level + 0.5) * FLOOR, color="#f6f8fb", zorder=0)
    for room, level in floor.items():
        x, y = centre[room] - widths[room] / 2, FLOOR * level - BOX / 2
        colour = shades(0.08 + 0.4 * level / max(1, len(by_floor) - 1))
        box = FancyBboxPatch(
            (x + 0.05, y + 0.05), widths[room] - 0.1, BOX - 0.1, boxstyle="round,pad=0.05",
            facecolor=colour, edgecolor=INK, linewidth=0.9, zorder=4,
        )  # fmt: skip
        ax.add_patch(box)
        ax.text(centre[room], y + 0.33, room, ha="center", va="center", color=INK,
                fontsize=11, fontweight="bold", zorder=5)  # fmt: skip
        ax.text(centre[room], y + 0.13, label[room], ha="center", va="center", color=INK,
                fontsize=8.5, zorder=5)  # fmt: skip

    def port(room, side):
        """Where the arrows of a room begin or end: in the order in which their other ends stand."""
        ends = [(centre[a if side else b], a, b) for a, b in arrows if (b if side else a) == room]
        spread = 0.75 * widths[room]
        return {
            (a, b): centre[room] + spread * ((i + 0.5) / len(ends) - 0.5)
            for i, (_, a, b) in enumerate(sorted(ends))
        }

    spans = [
        [(centre[r] - widths[r] / 2, centre[r] + widths[r] / 2) for r in row] for row in by_floor
    ]
    out, into = {}, {}
    for room in files:
        out |= port(room, 0)
        into |= port(room, 1)
    for a, b in sorted(arrows):
        colour, width, zorder = (PALE, 0.8, 1)
        if (a, b) in dark:
            colour, width, zorder = (INK, 1.3, 3)
        if (a, b) in wrong:
            colour, width, zorder = (WRONG, 1.6, 6)
        start = (out[a, b], FLOOR * floor[a] - BOX / 2)
        end = (into[a, b], FLOOR * floor[b] + BOX / 2)
        points = [start, end] if (a, b) in wrong else way(start, end, spans, total)
        arrow(ax, points, colour, width, zorder)
    figure.savefig(picture, dpi=170, metadata={"Software": None, "Description": words})
    plt.close(figure)


def counts(checkout):
    """What the figure shows, in one line, with what it is drawn from."""
    files, arrows = read(checkout)
    wrong = upward(files, arrows)
    floors = 1 + max(floors_of(files, arrows - wrong).values())
    up = f"{len(wrong)} of them upwards" if wrong else "none of them upwards"
    words = f"{len(files)} rooms on {floors} floors with {len(arrows)} arrows, {up}"
    return words, files, arrows, wrong


def main(checkout=HERE.parent, picture=HERE / "figures" / "rooms.png"):
    """Draw a checkout and print what was counted."""
    words, files, arrows, wrong = counts(checkout)
    draw(files, arrows, wrong, picture, words)
    lines = sorted(len(f.read_text().splitlines()) for found in files.values() for f in found)
    root = len(list((Path(checkout) / PACKAGE).glob("*.py")))
    print(f"{words}; {root} modules in the root")
    print(f"{len(lines)} files, median {statistics.median(lines):.0f} lines, largest {lines[-1]}")
    for a, b in sorted(wrong):
        print(f"upwards: {a} -> {b}")


if __name__ == "__main__":
    main(*sys.argv[1:])
