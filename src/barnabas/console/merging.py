"""What nodes remember, each for itself, as one: rates are added, of times the longest counts. Pure."""

from collections.abc import Sequence

from barnabas.console.models import Series


def merged(found: Sequence[Series]) -> Series:
    """The histories of several nodes as that of all; steps of one that ended a little earlier are moved to fit."""
    known = [each for each in found if each.until_ms > 0 and any(each.values.values())]
    if not known:
        return found[0] if found else Series(step_s=10, until_ms=0, values={})
    step_s = known[0].step_s
    until_ms = max(each.until_ms for each in known)
    names = dict.fromkeys(name for each in known for name in each.values)
    aligned = [(each, round((until_ms - each.until_ms) / 1000 / step_s)) for each in known if each.step_s == step_s]
    values = {
        name: _joined(
            [(each.values[name], late) for each, late in aligned if name in each.values],
            is_added=not name.endswith("_seconds"),
        )
        for name in names
    }
    return Series(step_s=step_s, until_ms=until_ms, values=values)


def _joined(columns: Sequence[tuple[Sequence[float], int]], *, is_added: bool) -> list[float]:
    """Columns of which each ends so many steps before the last one."""
    length = max((len(column) + late for column, late in columns), default=0)
    joined = [0.0] * length
    for column, late in columns:
        begin = length - late - len(column)
        for at, value in enumerate(column, begin):
            joined[at] = joined[at] + value if is_added else max(joined[at], value)
    return joined
