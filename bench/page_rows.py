# SPDX-License-Identifier: MIT
"""A run's rows, put together: the two states of a case in one, beside what it compares with."""

import dataclasses

UNITS = {'decode': 'us', 'extend': 'tflops'}


@dataclasses.dataclass
class Case:
    row: dict  # of the first state
    states: dict  # {state: row}

    @property
    def where(self):
        """All that makes two cases comparable but their format."""
        row = self.row
        return (row['op'], row.get('shape'), row['head_dim'], row['q_heads'], row['kv_heads'],
                row['batch'], row['context'], row.get('new'), row.get('keys'), row['page'],
                row['order'], row.get('features'))

    def value(self, state, name):
        row = self.states.get(state)
        return row.get(name) if row else None

    @property
    def peers(self):
        """{peer: its figure} in the first state, in the operation's unit."""
        unit = '_' + UNITS.get(self.row['op'], '')
        return {key[len('peer_'):-len(unit)]: value for key, value in self.row.items()
                if key.startswith('peer_') and key.endswith(unit)}


def cases_of(rows):
    found = {}
    for row in rows:
        case = Case(row, {})
        case = found.setdefault((case.where, row['format']), case)
        case.states[row.get('state', 'rested')] = row
    return list(found.values())


def baseline(cases, case):
    """The same case in 16 bits; None where it was not measured."""
    return next((other for other in cases
                 if other.where == case.where and other.row['format'] in ('bf16', 'fp16')), None)


def ratio(above, below, digits=2):
    return f'{above / below:.{digits}f}' if above and below else ''


def fixed(value, digits=0):
    return '' if value is None else f'{value:.{digits}f}'


def named(row):
    """What a case is, for a reader who has not seen the list of workloads."""
    heads = f"D{row['head_dim']}, {row['q_heads']}/{row['kv_heads']}"
    if row['op'] == 'store':
        return f"{row['batch']} tokens x {row['kv_heads']} heads, D{row['head_dim']}"
    name = f"{row['shape']}: " if 'shape' in row else ''
    groups = row.get('requests') or [[row['batch'], row['context'], row.get('new', 1)]]
    if row['op'] == 'extend':
        sizes = ' + '.join(f'{count} x {new} of {context}' for count, context, new in groups)
    else:
        sizes = ' + '.join(f'{count} x {context}' for count, context, _ in groups)
    extra = ''.join(f', {word} {row[word]}' for word in ('window', 'chunk') if word in row)
    return f'{name}{sizes}, {heads}{extra}'
